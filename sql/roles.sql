-- The rights of six group roles, which all databases of a server share. An operator grants these roles to login roles.
--
-- `shardclock migrate --roles` runs this script at its end; then each later `shardclock migrate` runs it, too. The
-- script creates missing roles, makes shardclock_owner the owner of all objects, revokes all rights from other roles,
-- and grants the rights below. Only the owner may use an object that this script does not name; a test requires a
-- reason for each of these objects. docs/operate/security.md shows the rights as a table; docs/decisions/0030-roles.md
-- has the reasons.

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
                null; -- another database of this server made the role at this moment
        end;
    end loop;
end
$$;

-- One role owns the schema and all its objects, so that each member of this role can change the schema.
do $$
declare
    mine record;
begin
    if not pg_has_role(current_user, 'shardclock_owner', 'usage') then
        execute format('grant shardclock_owner to %I', current_user);
    end if;
    -- Postgres requires that the new owner of a schema has the right to create schemas in the database.
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
            -- A sequence that belongs to a column always has the same owner as the table.
            and not exists (
                select from pg_catalog.pg_depend d
                where d.objid = c.oid and d.deptype in ('a', 'i') and c.relkind = 'S'
            )
        union all
        select format('routine %s', p.oid::regprocedure), p.proowner
        from pg_catalog.pg_proc p
        where p.pronamespace = 'shardclock'::regnamespace
        union all
        -- The row type of a table or view has the owner of its table or view.
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

-- Other roles can call a new function of the owner only when this script grants the right.
alter default privileges for role shardclock_owner revoke execute on functions from public;

-- `cascade` also revokes rights that a role has granted to other roles.
revoke all on schema shardclock
from public, shardclock_shard, shardclock_scheduler, shardclock_consumer, shardclock_reader cascade;
revoke all on all tables in schema shardclock
from public, shardclock_shard, shardclock_scheduler, shardclock_consumer, shardclock_reader cascade;
revoke all on all sequences in schema shardclock
from public, shardclock_shard, shardclock_scheduler, shardclock_consumer, shardclock_reader cascade;
revoke all on all routines in schema shardclock
from public, shardclock_shard, shardclock_scheduler, shardclock_consumer, shardclock_reader cascade;

-- Also revoke the rights of all other roles.
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
            -- Revoking a right on a table also revokes the right on each column.
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
-- Each program first checks the version of the schema.
grant select on shardclock.migrations, shardclock.functions
to shardclock_shard, shardclock_scheduler, shardclock_consumer, shardclock_reader;

-- Rights to read, for the exporter and the commands `list`, `show`, `explain`, `tail`, `status` and `forecast`. The
-- roles for shards and for scheduling also have these rights.
grant select on
    shardclock.timers, shardclock.timer_history, shardclock.command_log, shardclock.log_writers, shardclock.log_ends,
    shardclock.log_times, shardclock.consumers,
    shardclock.deliveries, shardclock.dead_letters, shardclock.handlers, shardclock.records_aside, shardclock.holders,
    shardclock.endpoint_attempts,
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
    shardclock.find_timers, shardclock.find_keys, shardclock.count_timers, shardclock.filtered_timers,
    shardclock.has_targets, shardclock.origin, shardclock.hold_reason,
    shardclock.foreign_reason, shardclock.is_free,
    shardclock.kind_of_target, shardclock.is_of_system, shardclock.late_since, shardclock.log_horizon, shardclock.read_log,
    shardclock.read_log_page
to shardclock_reader, shardclock_scheduler, shardclock_shard;

-- Rights for scheduling. The functions for clients run with the caller's rights, so the caller also needs rights on the
-- functions that they call.
grant update, delete on shardclock.timers to shardclock_scheduler;
-- The trigger check_new_timer does not check a row with a period, so only shards may insert a period.
do $$
begin
    execute (
        select
            format(
                'grant insert (%s) on shardclock.timers to shardclock_scheduler',
                string_agg(quote_ident(a.attname), ', ')
            )
        from pg_catalog.pg_attribute a
        where a.attrelid = 'shardclock.timers'::regclass and a.attnum > 0 and not a.attisdropped
            and a.attname <> 'period_us'
    );
end
$$;
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
    shardclock.cancel_if_pending, shardclock.pause_rows, shardclock.resume_rows, shardclock.missed_choice,
    shardclock.end_of_pause,
    shardclock.rule_refusal, shardclock.repeat_refusal, shardclock.cron_refusal, shardclock.period_refusal,
    shardclock.frequency_refusal, shardclock.never_occurs, shardclock.judged_moment, shardclock.at_sign_refusal, shardclock.brackets_refusal,
    shardclock.zone_refusal, shardclock.judged_duration, shardclock.shown, shardclock.cron_number,
    shardclock.judged_cron_item, shardclock.judged_cron_day, shardclock.cron_days
to shardclock_scheduler;

-- Rights to change jobs. An application may start a job in its own transaction, in the same way as it schedules a
-- timer.
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

-- Rights to deploy models, and to start and signal instances in an application's own transaction.
grant insert, update on shardclock.definitions, shardclock.messages to shardclock_scheduler;
grant insert, update, delete on shardclock.subscriptions to shardclock_scheduler;
grant update on shardclock.tasks to shardclock_scheduler;
grant insert on shardclock.task_acts to shardclock_scheduler;
grant insert, update on shardclock.process_starts to shardclock_scheduler;
grant insert on shardclock.business_keys to shardclock_scheduler;
-- Signals and service tasks are rows in deliveries; a program may claim and complete service tasks.
grant insert, update, delete on shardclock.deliveries to shardclock_scheduler;
grant execute on function
    shardclock.deploy_model, shardclock.delete_definition, shardclock.start_process, shardclock.cancel_instance,
    shardclock.set_variables, shardclock.resolve_incident, shardclock.move_tokens, shardclock.claim_task,
    shardclock.complete_task, shardclock.publish_message, shardclock.throw_signal,
    shardclock.activate_service_tasks, shardclock.extend_service_task, shardclock.complete_service_task,
    shardclock.fail_service_task, shardclock.throw_service_task_error
to shardclock_scheduler;
grant execute on function
    shardclock.check_text, shardclock.check_variables, shardclock.open_starts, shardclock.close_starts,
    shardclock.tenant_of_instance, shardclock.signal_instance, shardclock.end_service_task, shardclock.end_of_task,
    shardclock.check_process_quota, shardclock.lost_service_task, shardclock.attempts_left
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

-- The progress of bulk changes. No role may write the columns `role`, so they keep their default, the login. A gateway
-- continues only the operations of its own login.
grant select on shardclock.operations, shardclock.operation_pages to shardclock_reader, shardclock_scheduler, shardclock_shard;
grant insert (
    request_id, due_at, ended_at, state, matched, expected, left_out, changed, unchanged_reasons, by_operator,
    tenant_id, verb, filter, change, interface, key_prefix, key_name
)
on shardclock.operations to shardclock_scheduler, shardclock_shard;
grant update (due_at, ended_at, state, changed, unchanged_reasons, error) on shardclock.operations
to shardclock_scheduler, shardclock_shard;
grant insert (operation_id, page, tenant_id, keys), delete on shardclock.operation_pages
to shardclock_scheduler, shardclock_shard;

-- Acts of operators write audit records. Operators may read the audit, which only the owner may change.
grant execute on function shardclock.record_act to shardclock_shard, shardclock_scheduler;
grant select on shardclock.audit to shardclock_shard;
-- `tenants show` finds a tenant that has only a key.
grant select (tenant_id) on shardclock.api_keys to shardclock_shard;

-- Rights to run and to operate shards and the coordinator, with the commands `up`, `scale`, `ramp`, `switch`, `leave`,
-- `hold` and `release`.
grant insert, update, delete on shardclock.timers to shardclock_shard;
grant insert on shardclock.command_log to shardclock_shard;
-- Shards write deliveries when they fire timers. Workers have the same role as shards; they claim and settle
-- deliveries.
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
    shardclock.maintain_jobs, shardclock.has_no_start,
    shardclock.repair_job_waits, shardclock.waits_for_old_clock, shardclock.has_old_timer
to shardclock_shard;
-- Only workers may read the columns for secrets and headers, because they send the requests; readers and schedulers may
-- read all other columns.
grant select (tenant_id, name, url, policy, added_at, changed_at, disabled_at, disabled_why)
on shardclock.endpoints to shardclock_reader, shardclock_scheduler;
grant select, insert, update, delete on shardclock.endpoints to shardclock_shard;
grant insert, update, delete on shardclock.endpoint_attempts to shardclock_shard;
-- Rights for `notify`. Shards write events, and the coordinator converts events to deliveries.
grant select, insert, update, delete on
    shardclock.event_subscriptions, shardclock.operator_events, shardclock.event_throttles
to shardclock_shard;
-- Shards end pauses.
grant execute on function shardclock.end_pauses, shardclock.log_of to shardclock_shard;
grant usage on sequence shardclock.resumed_seq to shardclock_shard;
grant execute on function shardclock.send_events, shardclock.body_of_event to shardclock_shard;
-- Rights for `dead-letters redrive`, `dead-letters discard`, `deliveries retry` and `deliveries cancel`.
grant execute on function
    shardclock.redrive_dead_letters, shardclock.discard_dead_letters, shardclock.lock_delivery, shardclock.cancel_delivery,
    shardclock.retry_delivery, shardclock.retry_deliveries, shardclock.closed_target
to shardclock_shard;
grant insert, update, delete on shardclock.holders, shardclock.beats to shardclock_shard;
grant update on shardclock.coordination, shardclock.leadership, shardclock.scale, shardclock.identity to shardclock_shard;
grant select, insert on shardclock.log_days to shardclock_shard;
grant usage on sequence shardclock.timer_key_seq, shardclock.position_seq to shardclock_shard;
-- `release` sets the sequence to a value above all records' positions, because logical replication copies no sequence.
grant update on sequence shardclock.position_seq to shardclock_shard;
grant execute on function
    shardclock.adopt, shardclock.ensure_log_partitions, shardclock.rehome_log_default, shardclock.drop_log_partition
to shardclock_shard;
-- Rights for `tenants set` and `tenants remove`.
grant insert, update, delete on shardclock.tenants to shardclock_shard;
-- Engines count the usage of tenants with large quotas.
grant select, insert, update, delete on shardclock.tenant_usage to shardclock_shard;
grant execute on function shardclock.quota_of, shardclock.usage_of, shardclock.remaining_quota, shardclock.has_quota_for_start
to shardclock_shard, shardclock_scheduler;
-- Rights for `consumers reset` and `consumers drop`.
grant insert, update, delete on shardclock.consumers, shardclock.records_aside to shardclock_shard;
grant execute on function shardclock.reset_group to shardclock_shard;

-- `operate` changes the timers of jobs and processes with the operator's own rights, so that the record names the
-- operator.
grant execute on function
    shardclock.change_system_timer, shardclock.end_of_pause, shardclock.pause_rows, shardclock.resume_rows, shardclock.missed_choice, shardclock.move_timers,
    shardclock.pending_key, shardclock.check_one_timer, shardclock.ended_as,
    shardclock.check_due_date, shardclock.delay_from_now, shardclock.parse_delay, shardclock.plain_length,
    shardclock.judged_duration, shardclock.shown,
    shardclock.shift_length, shardclock.later, shardclock.to_utc, shardclock.clock_of, shardclock.named_clock
to shardclock_shard;
grant usage on sequence shardclock.rescheduled_seq, shardclock.paused_seq
to shardclock_shard;

-- The trigger that checks a row has the rights of the role that writes the row.
grant execute on function
    shardclock.broken_rule, shardclock.reserved_rule, shardclock.is_reserved_name, shardclock.reserved,
    shardclock.named_target, shardclock.out_of_range, shardclock.stale_period, shardclock.unknown_target,
    shardclock.is_too_deep, shardclock.too_deep
to shardclock_shard, shardclock_scheduler;
-- Rights for functions that take a reason.
grant execute on function shardclock.checked_text to shardclock_shard, shardclock_scheduler;
-- A role that writes timers may move the sequence of keys forward, if the sequence was set back.
grant execute on function shardclock.advance_keys to shardclock_shard, shardclock_scheduler;
-- A role may check whether a timer with a given key exists, even if row-level security hides the timer's row.
grant execute on function shardclock.is_key_used to shardclock_scheduler;
grant select on shardclock.logged_keys to shardclock_scheduler;

-- Rights to read the log as a member of a consumer group. There is no right to delete, because a group's position
-- protects unread records.
grant select on shardclock.command_log to shardclock_consumer;
grant select on sequence shardclock.position_seq to shardclock_consumer;
grant execute on function shardclock.log_horizon, shardclock.read_log, shardclock.read_log_page to shardclock_consumer;
grant select, insert on shardclock.consumers, shardclock.records_aside to shardclock_consumer;
-- There is no right to update the columns of the key, because a renamed group would lose its position.
grant update (
    position, worked_at, lease, leased_by, leased_until, leased_for, leased_records, attempts, failures, error,
    failed_at, not_before
)
on shardclock.consumers to shardclock_consumer;
grant update (set_aside_at, attempts, error) on shardclock.records_aside to shardclock_consumer;
grant execute on function shardclock.open_group to shardclock_consumer;

-- Rights to serve the HTTP API. The gateway has the rights of a scheduler, because it schedules timers for its callers,
-- and further rights that only the API needs. The gateway may read API keys, but may not create them.
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
grant select, insert, delete on shardclock.console_sessions to shardclock_gateway;
grant delete on shardclock.operations to shardclock_gateway;
grant delete on shardclock.consumers, shardclock.records_aside to shardclock_gateway;
grant execute on function shardclock.reset_group to shardclock_gateway;
grant insert, update, delete on shardclock.tenants to shardclock_gateway;
-- A change of a tenant's limits sets had_quota to false.
grant select (tenant_id, resource), update (had_quota) on shardclock.tenant_usage to shardclock_gateway;
-- For API keys with the scope operate: `scale`, `ramp`, `hold`, and `release`, which sets the sequence.
grant update on shardclock.coordination, shardclock.scale, shardclock.identity to shardclock_gateway;
grant update on sequence shardclock.position_seq to shardclock_gateway;
-- Callers of the API may change their deliveries, dead letters and endpoints.
grant insert, update, delete on shardclock.deliveries to shardclock_gateway;
grant insert, delete on shardclock.dead_letters to shardclock_gateway;
-- Discarding a start also deletes its business key.
grant delete on shardclock.business_keys to shardclock_gateway;
grant select, insert, update, delete on shardclock.endpoints to shardclock_gateway;
-- A gateway stores its test sends, and deletes old ones.
grant insert, update, delete on shardclock.endpoint_attempts to shardclock_gateway;
grant select, insert, update, delete on shardclock.event_subscriptions to shardclock_gateway;
grant select on shardclock.event_throttles to shardclock_gateway;
grant insert on shardclock.operator_events to shardclock_gateway;
grant execute on function
    shardclock.redrive_dead_letters, shardclock.discard_dead_letters, shardclock.lock_delivery,
    shardclock.cancel_delivery, shardclock.retry_delivery, shardclock.retry_deliveries, shardclock.closed_target,
    shardclock.change_system_timer
to shardclock_gateway;
grant execute on function shardclock.end_of_page to shardclock_gateway;
grant execute on function
    shardclock.find_requests, shardclock.forget_requests, shardclock.request_slot
to shardclock_gateway;

-- The policies of row-level security. The gateway's role can read and change only the rows of its session's tenants,
-- even if a statement has no filter for tenants. A gateway sets the tenants of each session; a session without tenants
-- can read all rows, even if its login has the gateway's role. All other roles can read all rows of the tables on which
-- they have rights, and no policy applies to the owner: docs/decisions/0056-row-level-security.md. The subquery makes
-- Postgres read the setting once for each statement.
--
-- The script creates the policies only if the database has the setting shardclock.wall = 'on' (`alter database … set
-- shardclock.wall = 'on'`). For a login that also has the role of shards, the policies slow some statements down. The
-- value `off` removes the policies. Without the setting, for example after a restore, existing policies are not
-- removed.
--
-- To change a policy, write a migration step, because the change needs exclusive locks on the tables, and a migration
-- takes these locks before its steps.
do $$
declare
    everyone constant text :=
        $rule$(select coalesce(nullif(current_setting('shardclock.tenants', true), ''), '*')) = '*'$rule$;
    own constant text := everyone || $rule$ or tenant_id = any (
        (select nullif(nullif(current_setting('shardclock.tenants', true), ''), '*')::text[])::text[]
    )$rule$;
    -- In a table without a column for the tenant, a row is visible if its instance is visible.
    of_instance constant text := 'exists (select from shardclock.instances i where i.instance_key = %I.instance_key)';
    held record;
begin
    for held in
        select t.name, t.name::regclass as id, p.policy, p.kind, p.role, p.rule
        from (
            values
                ('timers', own), ('command_log', own), ('deliveries', own), ('dead_letters', own), ('endpoints', own),
                ('endpoint_attempts', own), ('event_subscriptions', own), ('event_throttles', own),
                ('operator_events', own),
                ('tenants', own), ('audit', own), ('idempotent_requests', own), ('definitions', own),
                ('instances', own), ('subscriptions', own), ('messages', own), ('process_starts', own),
                ('business_keys', own), ('tasks', own), ('operations', own), ('operation_pages', own),
                ('instance_steps', of_instance), ('incidents', of_instance), ('task_acts', of_instance),
                -- These tables have rows of all tenants.
                ('records_aside', everyone), ('job_runs', everyone)
        ) as r (table_name, rule)
        cross join lateral (select 'shardclock.' || r.table_name as name) t
        cross join lateral (
            values
                ('all_rows', 'permissive', 'public', 'true'),
                -- The policy is restrictive, so that it also applies to a login that has other roles.
                ('served_rows', 'restrictive', 'shardclock_gateway', format(r.rule, r.table_name))
        ) as p (policy, kind, role, rule)
        where current_setting('shardclock.wall', true) = 'on'
    loop
        -- Each policy's comment has the expression's original text, so that a later run can find a change. Postgres
        -- stores the expression itself in another form.
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

-- The following rights are granted to no role. Only triggers call shardclock.check_timer, shardclock.mark_log_writer,
-- shardclock.note_key_prefix, shardclock.refuse_deep_config, shardclock.check_kept_message,
-- shardclock.check_definition, shardclock.keep_hold and shardclock.forget_business_keys. Only the functions that make
-- and drop the log's partitions call shardclock.require_partition_unlocked. Clients read the log and
-- idempotent_requests through the parent tables, not through the partitions. Only the owner writes api_keys and audit.
