-- The rights of six group roles, which all databases of a server share. An operator grants them to roles that log in.
--
-- `shardclock migrate --roles` runs this after all else, and from then on each `shardclock migrate` does. It
-- makes the roles that are missing, makes shardclock_owner the owner of everything, revokes all rights of all other
-- roles, and grants the rights that stand here. Anything without a line here is for the owner alone, and a test asks
-- why. docs/operate/security.md shows the same as a table; docs/decisions/0030-roles.md says why.

do $$
declare
    wanted text;
begin
    foreach wanted in array array[
        'shardclock_owner', 'shardclock_shard', 'shardclock_scheduler', 'shardclock_consumer', 'shardclock_reader',
        'shardclock_gateway'
    ]
    loop
        continue when exists (select from pg_catalog.pg_roles r where r.rolname = wanted);
        begin
            execute format('create role %I nologin', wanted);
        exception
            when duplicate_object or unique_violation then
                null; -- another database of this server made it at this moment
        end;
    end loop;
end
$$;

-- One role owns the schema and everything in it. So each of its members can change the schema.
do $$
declare
    mine record;
begin
    if not pg_has_role(current_user, 'shardclock_owner', 'usage') then
        execute format('grant shardclock_owner to %I', current_user);
    end if;
    -- Postgres lets a role become a schema's owner only if it may create schemas in the database.
    if not has_database_privilege('shardclock_owner', current_database(), 'create')
        and exists (
            select from pg_catalog.pg_namespace n
            where n.nspname = 'shardclock' and n.nspowner <> 'shardclock_owner'::regrole
        )
    then
        execute format('grant create on database %I to shardclock_owner', current_database());
    end if;
    for mine in
        select 'schema shardclock' as name, n.nspowner as owner
        from pg_catalog.pg_namespace n
        where n.nspname = 'shardclock'
        union all
        select
            format(
                '%s shardclock.%I',
                case c.relkind when 'v' then 'view' when 'S' then 'sequence' else 'table' end,
                c.relname
            ),
            c.relowner
        from pg_catalog.pg_class c
        where c.relnamespace = 'shardclock'::regnamespace and c.relkind in ('r', 'p', 'v', 'S')
            -- A sequence that a column owns gets the owner of its table.
            and not exists (
                select from pg_catalog.pg_depend d
                where d.objid = c.oid and d.deptype in ('a', 'i') and c.relkind = 'S'
            )
        union all
        select format('routine %s', p.oid::regprocedure), p.proowner
        from pg_catalog.pg_proc p
        where p.pronamespace = 'shardclock'::regnamespace
        union all
        -- The row types of tables and views get their owners.
        select format('type shardclock.%I', t.typname), t.typowner
        from pg_catalog.pg_type t
        left join pg_catalog.pg_class c on c.oid = t.typrelid
        where t.typnamespace = 'shardclock'::regnamespace and t.typelem = 0 and coalesce(c.relkind = 'c', true)
    loop
        continue when mine.owner = 'shardclock_owner'::regrole;
        execute format('alter %s owner to shardclock_owner', mine.name);
    end loop;
end
$$;

-- A function that the owner makes later can be called by nobody else until it has a line here.
alter default privileges for role shardclock_owner revoke execute on functions from public;

-- A role may have passed on a right that somebody granted it by hand: `cascade` revokes that as well.
revoke all on schema shardclock
from public, shardclock_shard, shardclock_scheduler, shardclock_consumer, shardclock_reader cascade;
revoke all on all tables in schema shardclock
from public, shardclock_shard, shardclock_scheduler, shardclock_consumer, shardclock_reader cascade;
revoke all on all sequences in schema shardclock
from public, shardclock_shard, shardclock_scheduler, shardclock_consumer, shardclock_reader cascade;
revoke all on all routines in schema shardclock
from public, shardclock_shard, shardclock_scheduler, shardclock_consumer, shardclock_reader cascade;

-- Revoke the rights of every other role, too.
do $$
declare
    given record;
begin
    for given in
        with ours (name, owner, acl) as (
            select 'schema shardclock', n.nspowner, n.nspacl
            from pg_catalog.pg_namespace n
            where n.nspname = 'shardclock'
            union all
            select
                format('%s shardclock.%I', case c.relkind when 'S' then 'sequence' else 'table' end, c.relname),
                c.relowner, c.relacl
            from pg_catalog.pg_class c
            where c.relnamespace = 'shardclock'::regnamespace and c.relkind in ('r', 'p', 'v', 'S')
            union all
            -- Rights on columns: revoking a right on the table revokes it on each column.
            select format('table shardclock.%I', c.relname), c.relowner, t.attacl
            from pg_catalog.pg_class c
            join pg_catalog.pg_attribute t on t.attrelid = c.oid
            where c.relnamespace = 'shardclock'::regnamespace and c.relkind in ('r', 'p', 'v') and t.attacl is not null
            union all
            select format('routine %s', p.oid::regprocedure), p.proowner, p.proacl
            from pg_catalog.pg_proc p
            where p.pronamespace = 'shardclock'::regnamespace
        )
        select distinct o.name, a.grantee::regrole as grantee
        from ours o
        cross join lateral aclexplode(o.acl) a
        where a.grantee not in (0, o.owner)
    loop
        execute format('revoke all on %s from %s cascade', given.name, given.grantee);
    end loop;
end
$$;

grant usage on schema shardclock to shardclock_shard, shardclock_scheduler, shardclock_consumer, shardclock_reader;
-- Each program checks first whether the schema is the one it needs.
grant select on shardclock.migrations, shardclock.functions
to shardclock_shard, shardclock_scheduler, shardclock_consumer, shardclock_reader;

-- Reading: `list`, `show`, `explain`, `tail`, `status`, `forecast`, the exporter. The roles that run shards or schedule
-- timers may read, too.
grant select on
    shardclock.timers, shardclock.timer_history, shardclock.command_log, shardclock.log_writers, shardclock.log_ends,
    shardclock.consumers,
    shardclock.deliveries, shardclock.dead_letters, shardclock.handlers, shardclock.records_aside, shardclock.holders,
    shardclock.beats, shardclock.presence, shardclock.coordination, shardclock.leadership, shardclock.identity,
    shardclock.scale, shardclock.zones, shardclock.jobs, shardclock.job_runs, shardclock.tenants,
    shardclock.definitions, shardclock.instances, shardclock.instance_steps, shardclock.incidents,
    shardclock.subscriptions, shardclock.messages, shardclock.tasks, shardclock.task_acts,
    shardclock.process_starts, shardclock.business_keys
to shardclock_reader, shardclock_scheduler, shardclock_shard;
grant select on
    sequence shardclock.timer_key_seq, shardclock.position_seq, shardclock.canceled_seq, shardclock.rescheduled_seq,
    shardclock.paused_seq, shardclock.resumed_seq
to shardclock_reader, shardclock_scheduler, shardclock_shard;
grant execute on function
    shardclock.find_timers, shardclock.find_keys, shardclock.has_targets, shardclock.origin, shardclock.hold_reason,
    shardclock.foreign_reason, shardclock.is_free,
    shardclock.kind_of_target, shardclock.is_of_system, shardclock.late_since, shardclock.log_horizon, shardclock.read_log,
    shardclock.read_log_page
to shardclock_reader, shardclock_scheduler, shardclock_shard;

-- Scheduling: the verbs, and the functions that they call, because these run with the caller's rights.
grant insert, update, delete on shardclock.timers to shardclock_scheduler;
grant insert on shardclock.command_log to shardclock_scheduler;
grant usage on
    sequence shardclock.timer_key_seq, shardclock.position_seq, shardclock.canceled_seq, shardclock.rescheduled_seq,
    shardclock.paused_seq, shardclock.resumed_seq
to shardclock_scheduler;
grant execute on function
    shardclock.schedule_timer, shardclock.ensure_timer, shardclock.cancel_timer, shardclock.reschedule_timer,
    shardclock.pause_timer, shardclock.resume_timer, shardclock.run_timer, shardclock.cancel_process_instance,
    shardclock.cancel_timers, shardclock.pause_timers, shardclock.resume_timers, shardclock.run_timers,
    shardclock.shift_timers
to shardclock_scheduler;
grant execute on function
    shardclock.new_timer, shardclock.write_timer, shardclock.log_replaced,
    shardclock.is_same_timer, shardclock.check_on_conflict, shardclock.plain_length,
    shardclock.change_timer, shardclock.change_rules, shardclock.move_timers, shardclock.pending_key,
    shardclock.was_run, shardclock.ended_as, shardclock.log_of, shardclock.check_one_timer, shardclock.check_schedule,
    shardclock.check_due_date, shardclock.check_zone, shardclock.parse_delay, shardclock.shift_length,
    shardclock.delay_from_now, shardclock.later, shardclock.to_utc, shardclock.clock_of, shardclock.named_clock,
    shardclock.agreed_zone, shardclock.check_client_timer, shardclock.keys_of_clients, shardclock.target_of_client,
    shardclock.cancel_rows, shardclock.pause_rows, shardclock.resume_rows,
    shardclock.rule_refusal, shardclock.repeat_refusal, shardclock.cron_refusal, shardclock.period_refusal,
    shardclock.frequency_refusal, shardclock.never_occurs, shardclock.judged_moment, shardclock.at_sign_refusal, shardclock.brackets_refusal,
    shardclock.zone_refusal, shardclock.judged_duration, shardclock.shown, shardclock.cron_number,
    shardclock.judged_cron_item, shardclock.judged_cron_day, shardclock.cron_days
to shardclock_scheduler;

-- The verbs of jobs. An application may start a job in its own transaction, as it schedules a timer.
grant insert, update, delete on shardclock.jobs to shardclock_scheduler;
grant execute on function
    shardclock.add_job, shardclock.remove_job, shardclock.apply_job, shardclock.described_job, shardclock.refused_job,
    shardclock.end_of_rule, shardclock.changes_of_job, shardclock.lock_job_names
to shardclock_scheduler;
grant execute on function
    shardclock.run_job, shardclock.cancel_job, shardclock.disable_job, shardclock.enable_job, shardclock.configure_job
to shardclock_scheduler, shardclock_shard;
grant execute on function
    shardclock.log_of_job, shardclock.plan_job, shardclock.next_start, shardclock.drop_job_timer, shardclock.stop_job,
    shardclock.resume_job, shardclock.unknown_job
to shardclock_scheduler, shardclock_shard;

-- Deploying models, and what drives instances, in an application's own transaction.
grant insert, update on shardclock.definitions, shardclock.messages to shardclock_scheduler;
grant insert, update, delete on shardclock.subscriptions to shardclock_scheduler;
grant update on shardclock.tasks to shardclock_scheduler;
grant insert on shardclock.task_acts to shardclock_scheduler;
grant insert, update on shardclock.process_starts to shardclock_scheduler;
grant insert on shardclock.business_keys to shardclock_scheduler;
-- Signals to instances are deliveries, and so are service tasks, which a program may take and answer itself.
grant insert, update, delete on shardclock.deliveries to shardclock_scheduler;
grant execute on function
    shardclock.deploy_model, shardclock.delete_definition, shardclock.start_process, shardclock.cancel_instance,
    shardclock.set_variables, shardclock.resolve_incident, shardclock.move_tokens, shardclock.claim_task,
    shardclock.complete_task, shardclock.publish_message, shardclock.throw_signal,
    shardclock.activate_service_tasks, shardclock.extend_service_task, shardclock.complete_service_task,
    shardclock.fail_service_task, shardclock.throw_service_task_error
to shardclock_scheduler;
grant execute on function
    shardclock.check_variables, shardclock.open_starts, shardclock.close_starts, shardclock.tenant_of_instance,
    shardclock.signal_instance, shardclock.end_service_task, shardclock.end_of_task, shardclock.check_quota,
    shardclock.lost_service_task, shardclock.attempts_left
to shardclock_scheduler;
-- Engines, which have the shards' role, advance instances.
grant insert, update, delete on
    shardclock.instances, shardclock.incidents, shardclock.tasks, shardclock.subscriptions
to shardclock_shard;
grant insert, delete on shardclock.instance_steps to shardclock_shard;
grant update, delete on shardclock.messages, shardclock.process_starts to shardclock_shard;
grant delete on shardclock.business_keys to shardclock_shard;
grant insert, delete on shardclock.task_acts to shardclock_shard;
grant execute on function
    shardclock.correlate_waiting, shardclock.send_signal, shardclock.find_definition, shardclock.lock_message, shardclock.cancel_start
to shardclock_scheduler, shardclock_shard;

-- Operators' verbs leave a record in the audit, which nobody but the owner may change. Who operates may read it.
grant execute on function shardclock.record_act to shardclock_shard, shardclock_scheduler;
grant select on shardclock.audit to shardclock_shard;

-- Running shards and the coordinator, and operating them: `up`, `scale`, `ramp`, `switch`, `leave`, `hold`, `release`.
grant insert, update, delete on shardclock.timers to shardclock_shard;
grant insert on shardclock.command_log to shardclock_shard;
-- Shards write deliveries when they fire; workers, which have the shards' role, claim and settle them.
grant insert, update, delete on shardclock.deliveries to shardclock_shard;
grant insert, delete on shardclock.dead_letters to shardclock_shard;
grant insert, update on shardclock.handlers to shardclock_shard;
grant execute on function shardclock.with_failure to shardclock_shard, shardclock_scheduler;
grant execute on function shardclock.on_service_task_ended to shardclock_shard;
-- `up` declares the jobs of its app, workers run them.
grant insert, update on shardclock.jobs to shardclock_shard;
grant insert, update, delete on shardclock.job_runs to shardclock_shard;
grant execute on function
    shardclock.declare_jobs, shardclock.lock_job_names, shardclock.declare_job, shardclock.withdraw_jobs,
    shardclock.tend_jobs, shardclock.has_no_start,
    shardclock.mend_job_waits, shardclock.waits_for_old_clock, shardclock.has_old_timer
to shardclock_shard;
-- Secrets and headers are for who sends; who schedules sees which endpoints there are.
grant select (tenant_id, name, url, policy, added_at, changed_at, disabled_at, disabled_why)
on shardclock.endpoints to shardclock_reader, shardclock_scheduler;
grant select, insert, update, delete on shardclock.endpoints to shardclock_shard;
-- `dead-letters redrive`, `dead-letters discard`, `deliveries retry` and `deliveries cancel`.
grant execute on function
    shardclock.redrive_dead_letters, shardclock.discard_dead_letters, shardclock.lock_delivery, shardclock.cancel_delivery,
    shardclock.retry_delivery, shardclock.retry_deliveries, shardclock.closed_target
to shardclock_shard;
grant insert, update, delete on shardclock.holders, shardclock.beats to shardclock_shard;
grant update on shardclock.coordination, shardclock.leadership, shardclock.scale, shardclock.identity to shardclock_shard;
grant select, insert on shardclock.log_days to shardclock_shard;
grant usage on sequence shardclock.timer_key_seq, shardclock.position_seq to shardclock_shard;
-- `release` moves the sequence beyond all records: replication copies no sequence.
grant update on sequence shardclock.position_seq to shardclock_shard;
grant execute on function
    shardclock.adopt, shardclock.ensure_log_partitions, shardclock.rehome_log_default, shardclock.drop_log_partition
to shardclock_shard;
-- `tenants set` and `tenants remove`.
grant insert, update, delete on shardclock.tenants to shardclock_shard;
-- Engines count the usage of tenants with large quotas.
grant select, insert, update, delete on shardclock.tenant_usage to shardclock_shard;
grant execute on function shardclock.quota_of, shardclock.used_of, shardclock.room_of
to shardclock_shard, shardclock_scheduler;
-- `consumers reset` and `consumers drop`.
grant insert, update, delete on shardclock.consumers, shardclock.records_aside to shardclock_shard;
grant execute on function shardclock.reset_group to shardclock_shard;

-- `operate` changes the timers of jobs and processes, with the rights of its caller, whom the record names.
grant execute on function
    shardclock.operate_timer, shardclock.pause_rows, shardclock.resume_rows, shardclock.move_timers,
    shardclock.log_of, shardclock.pending_key, shardclock.check_one_timer, shardclock.ended_as,
    shardclock.check_due_date, shardclock.delay_from_now, shardclock.parse_delay, shardclock.plain_length,
    shardclock.judged_duration, shardclock.shown,
    shardclock.shift_length, shardclock.later, shardclock.to_utc, shardclock.clock_of, shardclock.named_clock
to shardclock_shard;
grant usage on sequence shardclock.rescheduled_seq, shardclock.paused_seq, shardclock.resumed_seq
to shardclock_shard;

-- The rules of a row are checked with the rights of the role that writes the row.
grant execute on function
    shardclock.broken_rule, shardclock.reserved_rule, shardclock.is_reserved_name, shardclock.reserved,
    shardclock.named_target, shardclock.out_of_range, shardclock.unknown_target,
    shardclock.is_too_deep, shardclock.too_deep
to shardclock_shard, shardclock_scheduler;
-- A role that writes a timer may find that the sequence of keys was set back.
grant execute on function shardclock.advance_keys to shardclock_shard, shardclock_scheduler;
-- Whether a key is anybody's, also of a tenant whose rows the role can't see.
grant execute on function shardclock.is_key_used to shardclock_scheduler;
grant select on shardclock.logged_keys to shardclock_scheduler;

-- Reading the log in a group. No delete: a group's place is what keeps the log for the group.
grant select on shardclock.command_log to shardclock_consumer;
grant select on sequence shardclock.position_seq to shardclock_consumer;
grant execute on function shardclock.log_horizon, shardclock.read_log, shardclock.read_log_page to shardclock_consumer;
grant select, insert on shardclock.consumers, shardclock.records_aside to shardclock_consumer;
-- Not the columns of the key: a group that is renamed is lost like a deleted one.
grant update (
    position, worked_at, lease, leased_by, leased_until, leased_for, leased_records, attempts, failures, error,
    failed_at, not_before
)
on shardclock.consumers to shardclock_consumer;
grant update (set_aside_at, attempts, error) on shardclock.records_aside to shardclock_consumer;
grant execute on function shardclock.open_group to shardclock_consumer;

-- Serving the HTTP API. The gateway does for its callers what a scheduler does for itself, so it has the same rights on
-- the same objects, and those on what only the API needs. It reads API keys, and makes none.
do $$
declare
    given record;
begin
    for given in
        with ours (name, part, acl) as (
            select 'schema shardclock', '', n.nspacl
            from pg_catalog.pg_namespace n
            where n.nspname = 'shardclock'
            union all
            select
                format('%s shardclock.%I', case c.relkind when 'S' then 'sequence' else 'table' end, c.relname),
                '', c.relacl
            from pg_catalog.pg_class c
            where c.relnamespace = 'shardclock'::regnamespace and c.relkind in ('r', 'p', 'v', 'S')
            union all
            select format('table shardclock.%I', c.relname), format(' (%I)', t.attname), t.attacl
            from pg_catalog.pg_class c
            join pg_catalog.pg_attribute t on t.attrelid = c.oid
            where c.relnamespace = 'shardclock'::regnamespace and t.attacl is not null
            union all
            select format('routine %s', p.oid::regprocedure), '', p.proacl
            from pg_catalog.pg_proc p
            where p.pronamespace = 'shardclock'::regnamespace
        )
        select o.name, string_agg(a.privilege_type || o.part, ', ') as rights
        from ours o
        cross join lateral aclexplode(o.acl) a
        where a.grantee in ('shardclock_scheduler'::regrole, 'shardclock_consumer'::regrole)
        group by o.name
    loop
        execute format('grant %s on %s to shardclock_gateway', given.rights, given.name);
    end loop;
end
$$;
grant select on shardclock.api_keys, shardclock.audit to shardclock_gateway;
grant select, insert, update on shardclock.idempotent_requests to shardclock_gateway;
grant delete on shardclock.consumers, shardclock.records_aside to shardclock_gateway;
grant execute on function shardclock.reset_group to shardclock_gateway;
grant insert, update, delete on shardclock.tenants to shardclock_gateway;
-- Operators' keys: `scale`, `ramp`, `hold` and `release`, which moves the sequence.
grant update on shardclock.coordination, shardclock.scale, shardclock.identity to shardclock_gateway;
grant update on sequence shardclock.position_seq to shardclock_gateway;
-- Its callers act on their deliveries, dead letters and endpoints.
grant insert, update, delete on shardclock.deliveries to shardclock_gateway;
grant insert, delete on shardclock.dead_letters to shardclock_gateway;
-- A start that is discarded takes its business key with it.
grant delete on shardclock.business_keys to shardclock_gateway;
grant select, insert, update, delete on shardclock.endpoints to shardclock_gateway;
grant execute on function
    shardclock.redrive_dead_letters, shardclock.discard_dead_letters, shardclock.lock_delivery,
    shardclock.cancel_delivery, shardclock.retry_delivery, shardclock.retry_deliveries, shardclock.closed_target,
    shardclock.operate_timer
to shardclock_gateway;
grant execute on function shardclock.end_of_page to shardclock_gateway;
grant execute on function
    shardclock.find_requests, shardclock.forget_requests, shardclock.request_slot
to shardclock_gateway;

-- Whose rows a role may see. The gateway's role sees those of the tenants that its session serves, and changes no other:
-- what it forgets to ask for, Postgres still asks for. A gateway's session always says whom it serves; one that says
-- nothing is no gateway's, though its login may have that role, too. Whoever else may read a table sees all of it, and no
-- policy holds who owns the tables. docs/decisions/0056-row-level-security.md says why. A setting is read in a subquery, so
-- once for a statement.
--
-- They are made only where the database asks for them, by `alter database … set shardclock.wall = 'on'`: if a login has the
-- gateway's role beside that of shards, each of its statements asks the policies, and some then read far more. `off` takes
-- them away; where nothing is set, as after a restore, they stay as they are.
--
-- A rule that changes needs its table for itself: change it together with a step, which has locked all.
do $$
declare
    everyone constant text :=
        $rule$(select coalesce(nullif(current_setting('shardclock.tenants', true), ''), '*')) = '*'$rule$;
    own constant text := everyone || $rule$ or tenant_id = any (
        (select nullif(nullif(current_setting('shardclock.tenants', true), ''), '*')::text[])::text[]
    )$rule$;
    -- What has no tenant of its own is seen with what it belongs to.
    of_instance constant text := 'exists (select from shardclock.instances i where i.instance_key = %I.instance_key)';
    held record;
begin
    for held in
        select t.name, t.name::regclass as id, p.policy, p.kind, p.role, p.rule
        from (
            values
                ('timers', own), ('command_log', own), ('deliveries', own), ('dead_letters', own), ('endpoints', own),
                ('tenants', own), ('audit', own), ('idempotent_requests', own), ('definitions', own),
                ('instances', own), ('subscriptions', own), ('messages', own), ('process_starts', own),
                ('business_keys', own), ('tasks', own),
                ('instance_steps', of_instance), ('incidents', of_instance), ('task_acts', of_instance),
                -- They quote records and runs of any tenant.
                ('records_aside', everyone), ('job_runs', everyone)
        ) as r (table_name, rule)
        cross join lateral (select 'shardclock.' || r.table_name as name) t
        cross join lateral (
            values
                ('all_rows', 'permissive', 'public', 'true'),
                -- Restrictive, so it holds a login that has other roles as well.
                ('served_rows', 'restrictive', 'shardclock_gateway', format(r.rule, r.table_name))
        ) as p (policy, kind, role, rule)
        where current_setting('shardclock.wall', true) = 'on'
    loop
        -- Postgres writes a rule in its own words, so ours is kept beside it.
        continue when exists (
            select from pg_catalog.pg_policy y
            where y.polrelid = held.id and y.polname = held.policy and obj_description(y.oid, 'pg_policy') = held.rule
        );
        execute format('alter table %s enable row level security', held.name);
        execute format('drop policy if exists %I on %s', held.policy, held.name);
        execute format(
            'create policy %I on %s as %s to %s using (%s)', held.policy, held.name, held.kind, held.role, held.rule
        );
        execute format('comment on policy %I on %s is %L', held.policy, held.name, held.rule);
    end loop;
    if current_setting('shardclock.wall', true) = 'off' then
        for held in
            select p.polname as policy, p.polrelid::regclass as name
            from pg_catalog.pg_policy p
            join pg_catalog.pg_class c on c.oid = p.polrelid
            where c.relnamespace = 'shardclock'::regnamespace and p.polname in ('all_rows', 'served_rows')
        loop
            execute format('drop policy %I on %s', held.policy, held.name);
            execute format('alter table %s disable row level security', held.name);
        end loop;
    end if;
end
$$;

-- Granted to no role: shardclock.check_timer, shardclock.mark_log_writer, shardclock.note_key_prefix,
-- shardclock.refuse_deep_config, shardclock.check_kept_message, shardclock.check_definition, shardclock.keep_hold and
-- shardclock.forget_business_keys, which only triggers call;
-- shardclock.check_nobody_keeps, which only the functions that make and drop days call; the log's partitions, which are
-- read through the log, and those of idempotent_requests; and to write api_keys or audit, which only the owner does.
