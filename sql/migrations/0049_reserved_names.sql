-- The timers of jobs and processes, which clients can neither write nor change.
--
-- A row's target shows its owner: only the statements of jobs and processes write the targets `job:NAME` and
-- `process:instance`. Each client's way in refuses them. process_instance_key tells nothing: clients choose it.
-- docs/decisions/0069-reserved-names.md

create function shardclock.is_of_system(target text)
returns boolean
language sql
immutable
begin atomic
    select target ^@ 'job:' or target = 'process:instance';
end;

comment on function shardclock.is_of_system is
    'Internal: Says whether a timer with this target is one of a job or a process.';

create function shardclock.is_reserved_name(name text)
returns boolean
language sql
immutable
begin atomic
    select name ^@ 'job:' or name ^@ 'process:' or name ^@ 'start:';
end;

comment on function shardclock.is_reserved_name is
    'Internal: Says whether only a timer of a job or a process may have this name.';

-- The sentence that refuses a reserved name or target; null: it is not reserved.
create function shardclock.reserved(field text, given text)
returns text
language sql
immutable
begin atomic
    select case
        when field = 'name' and shardclock.is_reserved_name(given)
            then format(
                'name "%s" is reserved: names that begin with job:, process: or start: are for the timers of jobs and '
                'processes; choose another name',
                left(given, 60)
            )
        when field = 'target' and given ^@ 'job:'
            then format(
                'target "%s" is reserved for the timers of jobs: start the job (shardclock jobs run %s), or choose '
                'another target',
                left(given, 60), left(substr(given, 5), 60)
            )
        when field = 'target' and given ^@ 'process:'
            then format(
                'target "%s" is reserved for the timers of processes: start an instance (shardclock processes start), '
                'or choose another target',
                left(given, 60)
            )
    end;
end;

comment on function shardclock.reserved is 'Internal: Says why a client may not give a name or a target; null: it may.';

-- The rule of a row, beside broken_rule: a reserved name and the target belong together.
create function shardclock.reserved_rule(t shardclock.timers)
returns text[]
language sql
immutable
begin atomic
    select case
        when shardclock.is_reserved_name(t.name)
            and not case when t.name ^@ 'job:' then t.target = t.name else t.target = 'process:instance' end
            then array['name_is_not_reserved', shardclock.reserved('name', t.name)]
    end;
end;

comment on function shardclock.reserved_rule is
    'Internal: Says whether a row has a reserved name, and why it may not.';

create or replace function shardclock.check_timer()
returns trigger
language plpgsql
as $$
declare
    broken text[] := coalesce(shardclock.broken_rule(new), shardclock.reserved_rule(new));
    named text := shardclock.named_target(new, old);
begin
    if broken is null and named is not null then
        broken := array['target_is_known', shardclock.unknown_target(named, new.tenant_id)];
    end if;
    if broken[2] is null then
        return new;
    end if;
    raise exception '%', broken[2]
        using errcode = 'check_violation', constraint = broken[1], schema = tg_table_schema, table = tg_table_name;
end
$$;

-- A batch of a client's timers passes its targets through this: the trigger can't tell the writer of a row.
create function shardclock.target_of_client(target text)
returns text
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    if shardclock.reserved('target', target) is null then
        return target;
    end if;
    raise exception '%', shardclock.reserved('target', target)
        using errcode = 'check_violation', constraint = 'target_is_not_reserved', schema = 'shardclock',
            table = 'timers';
end
$$;

comment on function shardclock.target_of_client is 'Internal: Returns a target, and refuses a reserved one.';

-- Refuses a verb of a client for a timer of a job or a process.
create function shardclock.check_client_timer(timer_key bigint)
returns void
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
declare
    t shardclock.timers;
begin
    select o.* into t
    from shardclock.timers o
    where o.timer_key = check_client_timer.timer_key and shardclock.is_of_system(o.target);
    if not found then
        return;
    end if;
    raise exception '%, or let an operator change the timer (shardclock operate)', case
        when t.target ^@ 'job:'
            then format(
                'timer %s starts job "%s": run or disable the job (shardclock jobs)', t.timer_key, substr(t.target, 5)
            )
        when t.process_instance_key is null
            then format(
                'timer %s starts instances of a process: delete its definition (shardclock processes delete)',
                t.timer_key
            )
        else format(
            'timer %s belongs to instance %s: cancel that (shardclock processes cancel %s), move its token',
            t.timer_key, t.process_instance_key, t.process_instance_key
        )
    end
        using errcode = 'object_not_in_prerequisite_state';
end
$$;

comment on function shardclock.check_client_timer is
    'Internal: Refuses a client''s change of a timer that is one of a job or a process.';

create function shardclock.cancel_rows(timer_keys bigint[], reason text, of_system boolean)
returns setof bigint
language sql
set enable_seqscan = off
begin atomic
    with gone as (
        delete from shardclock.timers t
        where t.timer_key = any (timer_keys) and shardclock.is_of_system(t.target) = of_system
        returning t as timer
    )
    select (g.timer).timer_key
    from gone g
    cross join lateral shardclock.log_of(
        g.timer,
        'CANCELED',
        coalesce((g.timer).paused_due_date, (g.timer).due_date),
        jsonb_build_object('reason', reason)
    );
end;

comment on function shardclock.cancel_rows is 'Internal: Cancels the timers of clients, or those of jobs and processes.';

create or replace function shardclock.cancel_timers(timer_keys bigint[], reason text default null)
returns setof bigint
language sql
begin atomic
    select c.timer_key from shardclock.cancel_rows(timer_keys, reason, false) as c (timer_key);
end;

comment on function shardclock.cancel_timers is $$Cancels the pending and paused timers among these, each with its
record. Timers of jobs and processes are left as they are.

timer_keys: the timers' keys, for example from find_timers; timers that have ended are ignored
reason: kept in the records
returns: the keys of the timers that were cancelled
errors: none of its own
example: select shardclock.cancel_timers(array(select timer_key from shardclock.find_timers(tenant_id => 'acme', name_prefix => 'order-')), 'closed');
$$;

create function shardclock.pause_rows(timer_keys bigint[], reason text, of_system boolean)
returns setof bigint
language sql
set enable_seqscan = off
begin atomic
    with paused as (
        -- This ends the claim: a shard that has the timer in memory can't fire it any more.
        update shardclock.timers t
        set paused_due_date = t.due_date, due_date = '9999-12-31 23:59:59.999998+00',
            claimed_by = null, claimed_until = null
        where t.timer_key = any (timer_keys)
            and t.paused_due_date is null
            and shardclock.is_of_system(t.target) = of_system
        returning t as timer
    )
    select (p.timer).timer_key
    from paused p
    cross join lateral shardclock.log_of(
        p.timer, 'PAUSED', (p.timer).paused_due_date, jsonb_build_object('reason', reason)
    );
end;

comment on function shardclock.pause_rows is 'Internal: Pauses the timers of clients, or those of jobs and processes.';

create or replace function shardclock.pause_timers(timer_keys bigint[], reason text default null)
returns setof bigint
language sql
begin atomic
    select p.timer_key from shardclock.pause_rows(timer_keys, reason, false) as p (timer_key);
end;

comment on function shardclock.pause_timers is $$Keeps the pending timers among these from firing until they are
resumed. Timers of jobs and processes are left as they are.

as: cancel_timers
returns: the keys of the timers that were paused
example: select shardclock.pause_timers(array(select timer_key from shardclock.find_timers(tenant_id => 'acme')), 'month-end close');
$$;

create function shardclock.resume_rows(timer_keys bigint[], of_system boolean)
returns setof bigint
language sql
set enable_seqscan = off
begin atomic
    with resumed as (
        update shardclock.timers t
        set due_date = t.paused_due_date, paused_due_date = null, changed_at = clock_timestamp()
        where t.timer_key = any (timer_keys)
            and t.paused_due_date is not null
            and shardclock.is_of_system(t.target) = of_system
        returning t as timer
    )
    select (r.timer).timer_key
    from resumed r
    cross join lateral shardclock.log_of(r.timer, 'RESUMED', (r.timer).due_date, '{}');
end;

comment on function shardclock.resume_rows is
    'Internal: Resumes the timers of clients, or those of jobs and processes.';

create or replace function shardclock.resume_timers(timer_keys bigint[])
returns setof bigint
language sql
begin atomic
    select r.timer_key from shardclock.resume_rows(timer_keys, false) as r (timer_key);
end;

comment on function shardclock.resume_timers is $$Lets the paused timers among these go on. A timer that fell due during
the pause is due now, and its missed-run policy applies. Timers of jobs and processes are left as they are.

as: cancel_timers
returns: the keys of the timers that were resumed
example: select shardclock.resume_timers(array(select timer_key from shardclock.find_timers(state => 'PAUSED', tenant_id => 'acme')));
$$;

create function shardclock.keys_of_clients(timer_keys bigint[])
returns bigint[]
language sql
stable
set enable_seqscan = off
begin atomic
    select array(
        select k.timer_key
        from unnest(timer_keys) as k (timer_key)
        -- One probe for each key: a join could read the whole table by a plan that was made on an empty one.
        where (
            select shardclock.is_of_system(t.target) from shardclock.timers t where t.timer_key = k.timer_key
        ) is not true
    );
end;

comment on function shardclock.keys_of_clients is 'Internal: Leaves out the keys of timers of jobs and processes.';

create or replace function shardclock.shift_timers(timer_keys bigint[], shift text, operation text default null)
returns setof bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
begin
    -- If the same operation is sent again while the first call still runs, this waits, and then finds its records.
    -- Without an operation the key is null, and this waits for nothing.
    perform pg_advisory_xact_lock(hashtextextended('shardclock.shift_timers ' || operation, 0));
    return query
    select shardclock.move_timers(
        shardclock.keys_of_clients(timer_keys), null, shardclock.shift_length(shift), operation
    );
exception when datetime_field_overflow or check_violation then
    raise exception 'shift "%" is too long: it would move a timer out of the years 1 to 9999', left(shift, 60)
        using errcode = 'invalid_parameter_value';
end
$$;

comment on function shardclock.shift_timers is $$Moves the pending and paused timers among these by a length, each on
the calendar of its own zone. A schedule's grid stays. Timers of jobs and processes are left as they are.

timer_keys: the timers' keys, for example from find_timers; timers that have ended are ignored
shift: an ISO 8601 duration, with a minus sign to move backwards: PT1H, -P1D
operation: a name for this shift, if it may be sent again: with the same name no timer moves twice
returns: the keys of the timers that were moved
errors: 22023 for a text that is no duration, or that would move a timer out of the years 1 to 9999
example: select shardclock.shift_timers(array(select timer_key from shardclock.find_timers(tenant_id => 'acme')), 'P1D', operation => 'acme-moves-on');
$$;

-- Changes one timer, found by its key or its name; if it ended before we could lock it, searches again.
create or replace function shardclock.change_timer(verb text, timer_key bigint, name text, tenant_id text, reason text)
returns text
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    key bigint;
    state text;
begin
    perform shardclock.check_one_timer(timer_key, name);
    loop
        key := shardclock.pending_key(timer_key, name, tenant_id);
        exit when key is null;
        case verb
            when 'cancel' then perform shardclock.cancel_timers(array[key], reason);
            when 'pause' then perform shardclock.pause_timers(array[key], reason);
            when 'resume' then perform shardclock.resume_timers(array[key]);
            when 'run' then perform shardclock.run_timers(array[key], reason); -- of a run, its operation
        end case;
        if found then
            return case verb
                when 'cancel' then 'CANCELED' when 'pause' then 'PAUSED' when 'resume' then 'PENDING' else 'RESCHEDULED'
            end;
        end if;
        select case when t.paused_due_date is null then 'PENDING' else 'PAUSED' end into state
        from shardclock.timers t
        where t.timer_key = key;
        if found then
            perform shardclock.check_client_timer(key);
            return state; -- there was nothing to change
        end if;
        -- The timer ended while we waited for its row. After a firing, the next occurrence has the same name.
    end loop;
    return shardclock.ended_as(timer_key, name, tenant_id);
end
$$;

comment on function shardclock.cancel_timer is $$Cancels a pending or paused timer.

timer_key: the timer's key; give either its key or its name
name: the timer's name; for a schedule this is the pending occurrence
tenant_id: the tenant that the name belongs to
reason: kept in the record
returns: CANCELED (now or before), or how it ended: TRIGGERED (too late: it has fired), SKIPPED (missed, with policy skip), UNKNOWN (there is no such timer)
errors: 22023 for neither key nor name, or both; 55000 for a timer of a job or a process
example: select shardclock.cancel_timer(name => 'cart-7', reason => 'paid');
$$;

create or replace function shardclock.cancel_process_instance(process_instance_key bigint, reason text default null)
returns bigint
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    keys bigint[];
    cancelled bigint := 0;
begin
    loop
        keys := array(
            select t.timer_key
            from shardclock.timers t
            where t.process_instance_key = cancel_process_instance.process_instance_key
                and shardclock.is_of_system(t.target) is not true
        );
        exit when keys = '{}';
        -- A timer that fired while we waited for its row is gone, but its next occurrence may exist: read again.
        cancelled := cancelled + (select count(*) from shardclock.cancel_timers(keys, reason));
    end loop;
    return cancelled;
end
$$;

comment on function shardclock.cancel_process_instance is $$Cancels all timers of a process instance of another engine's, pending
and paused. What an instance of a BPMN process waits for here is cancelled with it: cancel_instance.

process_instance_key: the process instance that the timers were scheduled for
reason: kept in the records
returns: how many timers were cancelled
errors: none of its own
example: select shardclock.cancel_process_instance(42, reason => 'the process ended');
$$;

create or replace function shardclock.reschedule_timer(
    timer_key bigint default null,
    name text default null,
    tenant_id text default 'default',
    due_date timestamptz default null,
    delay text default null,
    shift text default null,
    schedule text default null,
    zone text default null,
    missed text default null
)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    key bigint;
    new_due timestamptz := due_date;
    unplanned boolean;
begin
    perform shardclock.check_one_timer(timer_key, name);
    if num_nonnulls(due_date, delay, shift, schedule) <> 1 then
        raise exception 'say when: give exactly one of due_date, delay, shift and schedule'
            using errcode = 'invalid_parameter_value';
    end if;
    if schedule is null and num_nonnulls(zone, missed) > 0 then
        raise exception 'zone and missed go with a schedule' using errcode = 'invalid_parameter_value';
    end if;
    if missed is not null and missed not in ('fire_once', 'fire_all', 'skip') then
        raise exception 'missed "%" is unknown: use fire_once, fire_all or skip', left(missed, 60)
            using errcode = 'invalid_parameter_value';
    end if;
    if schedule is not null then
        perform shardclock.check_zone(coalesce(zone, 'UTC')), shardclock.check_schedule(schedule, coalesce(zone, 'UTC'));
        zone := shardclock.agreed_zone(schedule, zone);
    end if;
    if due_date is not null then
        perform shardclock.check_due_date(due_date, 'due_date', due_date::text);
    end if;
    loop
        key := shardclock.pending_key(timer_key, name, tenant_id);
        exit when key is null;
        perform shardclock.check_client_timer(key);
        if schedule is not null then
            perform shardclock.change_rules(array[key], schedule, zone, missed);
        elsif shift is not null then
            perform shardclock.shift_timers(array[key], shift);
        else
            if delay is not null then
                select shardclock.delay_from_now(delay, t.zone, 'delay') into new_due
                from shardclock.timers t
                where t.timer_key = key;
            end if;
            perform shardclock.move_timers(array[key], new_due, null, null);
        end if;
        if found then
            return 'RESCHEDULED';
        end if;
        select t.anchor_occurrence is null into unplanned from shardclock.timers t where t.timer_key = key;
        if unplanned then
            raise exception 'timer % has no date yet: a running cluster plans its schedule, '
                'unless it is paused; try again then', key
                using errcode = 'object_not_in_prerequisite_state';
        end if;
    end loop;
    return shardclock.ended_as(timer_key, name, tenant_id);
end
$$;

create function shardclock.operate_timer(
    verb text,
    timer_key bigint default null,
    name text default null,
    tenant_id text default 'default',
    due_date timestamptz default null,
    delay text default null,
    shift text default null,
    reason text default null
)
returns text
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    key bigint;
    t shardclock.timers;
begin
    perform shardclock.check_one_timer(timer_key, name);
    if verb is null or verb not in ('pause', 'resume', 'reschedule') then
        raise exception 'verb "%" is unknown: use pause, resume or reschedule', left(verb, 60)
            using errcode = 'invalid_parameter_value';
    end if;
    if num_nonnulls(due_date, delay, shift) <> (verb = 'reschedule')::integer then
        raise exception 'verb "%" has % of due_date, delay and shift: reschedule needs exactly one, pause and resume '
            'none', verb, num_nonnulls(due_date, delay, shift)
            using errcode = 'invalid_parameter_value';
    end if;
    if due_date is not null then
        perform shardclock.check_due_date(due_date, 'due_date', due_date::text);
    end if;
    loop
        key := shardclock.pending_key(timer_key, name, tenant_id);
        exit when key is null;
        select o.* into t from shardclock.timers o where o.timer_key = key;
        continue when not found;
        if not shardclock.is_of_system(t.target) then
            raise exception 'timer % is a client''s: change it by pause_timer, resume_timer or reschedule_timer', key
                using errcode = 'object_not_in_prerequisite_state';
        end if;
        case verb
            when 'pause' then perform shardclock.pause_rows(array[key], reason, true);
            when 'resume' then perform shardclock.resume_rows(array[key], true);
            else perform shardclock.move_timers(
                array[key],
                case when delay is null then due_date else shardclock.delay_from_now(delay, t.zone, 'delay') end,
                case when shift is not null then shardclock.shift_length(shift) end,
                null
            );
        end case;
        if found then
            return case verb when 'pause' then 'PAUSED' when 'resume' then 'PENDING' else 'RESCHEDULED' end;
        end if;
        select o.* into t from shardclock.timers o where o.timer_key = key;
        continue when not found; -- it ended while we waited for its row
        if verb = 'reschedule' then
            raise exception 'timer % has no date yet: a running cluster plans its schedule, '
                'unless it is paused; try again then', key
                using errcode = 'object_not_in_prerequisite_state';
        end if;
        return case when t.paused_due_date is null then 'PENDING' else 'PAUSED' end; -- it was so before
    end loop;
    return shardclock.ended_as(timer_key, name, tenant_id);
end
$$;

comment on function shardclock.operate_timer is $$Changes a timer of a job or a process, for an operator. The verbs of
clients refuse these timers.

verb: pause, resume or reschedule
timer_key: the timer's key; give either its key or its name
name: the timer's name, such as job:nightly
tenant_id: the tenant that the name belongs to
due_date: for reschedule: the new due date. Give exactly one of due_date, delay and shift
delay: for reschedule: an ISO 8601 duration from now
shift: for reschedule: an ISO 8601 duration from its present due date, with a minus sign to move backwards
reason: for pause: kept in the record
returns: PAUSED, PENDING or RESCHEDULED (now or before), or how it ended: TRIGGERED, CANCELED, SKIPPED or UNKNOWN
errors: 22023 for a wrong argument, in a sentence that names it; 55000 for a timer of a client, and for a schedule that has no date yet
example: select shardclock.operate_timer('pause', name => 'job:nightly', reason => 'month-end close');
$$;

create or replace function shardclock.close_starts(definition_key bigint)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    keys bigint[];
begin
    -- A schedule that fires at this moment has another key afterwards: look again until there is none.
    loop
        keys := array(
            select t.timer_key
            from shardclock.definitions d
            cross join lateral jsonb_array_elements(d.starts) with ordinality as s (start, number)
            join shardclock.timers t
                on t.tenant_id = d.tenant_id and t.name = 'start:' || d.definition_key || ':' || s.number
            where d.definition_key = close_starts.definition_key
        );
        exit when keys = '{}';
        perform shardclock.cancel_rows(keys, 'its definition was replaced or deleted', true);
    end loop;
    delete from shardclock.subscriptions s where s.definition_key = close_starts.definition_key;
end
$$;

create or replace function shardclock.has_no_start(job text)
returns boolean
language sql
volatile -- For a new snapshot: the caller may have waited for the job's row.
set enable_seqscan = off
begin atomic
    -- One select: a firing moves a start from the one table to the other.
    select not exists (
            select from shardclock.timers t
            where t.tenant_id = 'default' and t.name = 'job:' || has_no_start.job and t.target = t.name
        )
        and not exists (
            select from shardclock.deliveries d
            where d.target = 'job:' || has_no_start.job and d.tenant_id = 'default'
        );
end;

comment on function shardclock.run_timers is $$Makes the pending timers among these due now. A schedule runs once more,
and keeps its due dates. Timers of jobs and processes are left as they are.

timer_keys: the timers' keys, for example from find_timers; timers that have ended are ignored
operation: a name for this run: if it is sent again with the same name, no timer runs twice
returns: the keys of the timers that were made due; timers that were due already or are paused are not among them
errors: none of its own
example: select shardclock.run_timers(array(select timer_key from shardclock.find_timers(tenant_id => 'acme', name_prefix => 'report-')));
$$;

-- Makes the row of a new timer: checked, with its due date and a new key, but not written yet.
create or replace function shardclock.new_timer(
    due_date timestamptz,
    delay text,
    schedule text,
    name text,
    tenant_id text,
    payload jsonb,
    target text,
    timer_type text,
    target_element_id text,
    process_instance_key bigint,
    element_instance_key bigint,
    zone text,
    missed text
)
returns shardclock.timers
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    wanted shardclock.timers;
    rule text[];
    refusal text;
begin
    if num_nonnulls(due_date, delay, schedule) <> 1 then
        raise exception 'give exactly one of due_date, delay and schedule, not %',
            num_nonnulls(due_date, delay, schedule)
            using errcode = 'invalid_parameter_value';
    end if;

    refusal := case
        when coalesce(length(tenant_id), 0) not between 1 and 200
            then format('tenant_id "%s" must have 1 to 200 characters', left(tenant_id, 60))
        when tenant_id ~ '[[:cntrl:]]' or name ~ '[[:cntrl:]]' or target_element_id ~ '[[:cntrl:]]'
            then 'tenant_id, name and target_element_id must have no control characters'
        when length(name) not between 1 and 200
            then format('name "%s" must have 1 to 200 characters', left(name, 60))
        when length(target_element_id) not between 1 and 200
            then format('target_element_id "%s" must have 1 to 200 characters', left(target_element_id, 60))
        when process_instance_key < 1 or element_instance_key < 1
            then 'process_instance_key and element_instance_key must be at least 1'
        when target is null
            then 'target null is unknown: leave it out, or name one'
        when shardclock.reserved('name', name) is not null
            then shardclock.reserved('name', name)
        when shardclock.reserved('target', target) is not null
            then shardclock.reserved('target', target)
        when target <> 'log' and shardclock.unknown_target(target, tenant_id) is not null
            then shardclock.unknown_target(target, tenant_id)
        when timer_type is null or timer_type not in ('BOUNDARY', 'INTERMEDIATE', 'START_EVENT', 'USER')
            then format(
                'timer_type "%s" is unknown: use BOUNDARY, INTERMEDIATE, START_EVENT or USER', left(timer_type, 60)
            )
        when octet_length(payload::text) > 65536
            then format('payload has %s bytes: the limit is 65536 (64 KiB)', octet_length(payload::text))
        when missed is null or missed not in ('fire_once', 'fire_all', 'skip')
            then format('missed "%s" is unknown: use fire_once, fire_all or skip', left(missed, 60))
        when missed <> 'fire_once' and schedule is null
            then format('missed "%s" is for a schedule: this timer fires once', left(missed, 60))
    end;
    if refusal is not null then
        raise exception '%', refusal using errcode = 'invalid_parameter_value';
    end if;
    if zone is distinct from 'UTC' then perform shardclock.check_zone(zone); end if;

    wanted.timer_key := nextval('shardclock.timer_key_seq');
    wanted.created_at := now();
    wanted.process_instance_key := process_instance_key;
    wanted.element_instance_key := element_instance_key;
    wanted.tenant_id := tenant_id;
    wanted.timer_type := timer_type;
    wanted.target := target;
    wanted.target_element_id := target_element_id;
    wanted.name := name;
    wanted.payload := payload;
    wanted.occurrence := 1;
    wanted.repetitions := 1;
    wanted.anchor_occurrence := 0;

    if schedule is null then
        wanted.zone := nullif(zone, 'UTC');
        wanted.due_date := case
            when delay is null then shardclock.check_due_date(due_date, 'due_date', due_date::text)
            else shardclock.delay_from_now(delay, zone, 'delay')
        end;
        return wanted;
    end if;

    wanted.schedule := schedule;
    wanted.zone := zone;
    wanted.missed := missed;
    wanted.anchor := now();
    rule := regexp_match(
        schedule,
        '^R(-1|[0-9]{0,9})/(P(?=.)([0-9]{1,5}W)?([0-9]{1,6}D)?'
        '(T(?=[0-9])([0-9]{1,7}H)?([0-9]{1,9}M)?([0-9]{1,10}([.,][0-9]{1,9})?S)?)?)$'
    );
    if rule is null or (zone <> 'UTC' and rule[2] !~ '^PT') then
        perform shardclock.check_schedule(schedule, zone);
        wanted.zone := shardclock.agreed_zone(schedule, zone);
        -- A shard plans this schedule: until then it is due at once, so that a shard claims it, and it does not fire.
        wanted.due_date := now();
        wanted.repetitions := -1;
        wanted.anchor_occurrence := null;
        return wanted;
    end if;
    if rule[2] !~ '[1-9]' then
        raise exception 'schedule %', shardclock.period_refusal(schedule, rule[2])
            using errcode = 'invalid_parameter_value';
    end if;
    -- Rn fires n times, R0 once; R and R-1 have no end.
    wanted.repetitions := case rule[1] when '' then -1 when '0' then 1 else rule[1]::bigint end;
    wanted.repetitions := case wanted.repetitions when 0 then 1 else wanted.repetitions end;
    wanted.due_date := shardclock.delay_from_now(rule[2], 'UTC', 'schedule');
    refusal := shardclock.frequency_refusal(schedule, rule[1], extract(epoch from wanted.due_date - now()));
    if refusal is not null then
        raise exception 'schedule %', refusal using errcode = 'invalid_parameter_value';
    end if;
    return wanted;
end
$$;

-- SQL refuses the same rules as the command line, in the same words: each function below has a counterpart in timers/.
-- tests/sql/test_parsing.py compares them.

-- Shows a refused text as timers/refusal.py does.
create function shardclock.shown(given text)
returns text
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    quote constant text := case when given like '%''%' and given not like '%"%' then '"' else '''' end;
    back constant text := chr(92);
    written text := replace(left(given, 60), back, back || back);
    code integer;
begin
    if quote = '''' then
        written := replace(written, '''', back || '''');
    end if;
    if written collate "C" ~ '[^ -~]' then
        for code in select c from generate_series(1, 173) c where c < 32 or c between 127 and 160 or c = 173 loop
            written := replace(
                written, chr(code),
                case code
                    when 9 then back || 't' when 10 then back || 'n' when 13 then back || 'r'
                    else back || 'x' || lpad(to_hex(code), 2, '0')
                end
            );
        end loop;
    end if;
    written := quote || written || quote;
    return case when length(given) > 60 or length(written) > 60 then left(written, 59) || chr(8230) else written end;
end
$$;

comment on function shardclock.shown is 'Internal: Shows a refused text on one line, cut.';

-- Reads a duration: why it is none, or its average length.
create function shardclock.judged_duration(given text, out refusal text, out average_days numeric)
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    plain text := case when length(given) <= 100 then shardclock.plain_length(given) else '' end;
    form constant text := '^P(?:([0-9]+)Y)?(?:([0-9]+)M)?(?:([0-9]+)W)?(?:([0-9]+)D)?'
        '(?:T(?=[0-9])(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+)S)?)?$';
    fraction text[] := regexp_match(plain, 'T.*[0-9][.,]([0-9]+)([HMS])$');
    whole text := case when fraction is null then plain else regexp_replace(plain, '[.,][0-9]+([HMS])$', E'\\1') end;
    parts text[] := case when whole <> 'P' then regexp_match(whole, form) end;
    n numeric[];
begin
    if parts is null then
        refusal := shardclock.shown(given) || case
            when plain like '%-%' and replace(whole, '-', '') ~ form and replace(whole, '-', '') <> 'P'
                then ' has a minus sign, and nothing is due before now; write a duration without it'
            else ' is not an ISO 8601 duration; write one such as PT15M, P1DT12H or PT0.5S'
        end;
        return;
    end if;
    n := array(select coalesce(p.part, '0')::numeric from unnest(parts) with ordinality as p (part, number) order by number);
    average_days := (n[1] * 12 + n[2]) * 30.436875 + n[3] * 7 + n[4] + (
        n[5] * 3600 + n[6] * 60 + n[7] + coalesce(
            ('0.' || fraction[1])::numeric * case fraction[2] when 'H' then 3600 when 'M' then 60 else 1 end, 0
        )
    ) / 86400;
    if average_days >= 3652425 then
        refusal := shardclock.shown(given) || ' is too long; a duration must be shorter than 10,000 years';
    end if;
end
$$;

comment on function shardclock.judged_duration is 'Internal: Says why a text is no duration; else its average length.';

create function shardclock.zone_refusal(given text)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
begin
    if given = 'UTC' or exists (select from shardclock.zones z where z.zone = given) then
        return null;
    end if;
    return shardclock.shown(given) || ' is not an IANA time zone; write one such as UTC or Europe/Berlin';
end
$$;

comment on function shardclock.zone_refusal is 'Internal: Says why a text is no time zone; null: it is one.';

-- Judges the time zones that a text names in brackets; null: it names none, or one that agrees with the one beside it.
create function shardclock.brackets_refusal(given text, beside text)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    named constant text[] := array(
        select distinct m.match[1] collate "C"
        from regexp_matches(left(given, 300), '[[]([^][]*)[]]', 'g') as m (match)
        order by 1
    );
begin
    return case
        when named = '{}' then null
        when shardclock.zone_refusal(named[1]) is not null then shardclock.zone_refusal(named[1])
        when cardinality(named) > 1
            then format(
                '%s names the time zones %s and %s; write only one', shardclock.shown(given), named[1],
                shardclock.shown(named[2])
            )
        when beside not in (named[1], 'UTC')
            then format(
                '%s names the time zone %s, but its zone is %s; give only one', shardclock.shown(given), named[1], beside
            )
    end;
end
$$;

comment on function shardclock.brackets_refusal is
    'Internal: Says why the time zones that a text names are refused; null: they are not.';

create function shardclock.at_sign_refusal(given text)
returns text
language sql
immutable
begin atomic
    select format(
        '%s has a zone after an @; write it in brackets, as in %s[Europe/Berlin]', shardclock.shown(given), m.match[1]
    )
    from regexp_match(
        left(given, 300), '([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.,]{4,30})[^/@]{0,9}@'
    ) as m (match)
    where m.match is not null;
end;

comment on function shardclock.at_sign_refusal is
    'Internal: Says that a time has its zone after an @, as FEEL writes it; null: it has none.';

-- Reads a moment, on the clock of a zone unless it is UTC.
create function shardclock.judged_moment(given text, zone text, out refusal text, out moment timestamptz)
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    m text[] := case when length(given) <= 128 then regexp_match(
        given,
        '^([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]([01][0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9])(?:[.,]([0-9]+))?)?'
        '([Zz]|[+-](?:[01][0-9]|2[0-3])(?::?[0-5][0-9])?)?([[][^][]*[]])?$'
    ) end;
    said_zone text := case when m[9] is null then zone else substr(m[9], 2, length(m[9]) - 2) end;
    local timestamp;
    shift interval;
    by_zone timestamptz;
begin
    if m is null then
        refusal := coalesce(
            shardclock.at_sign_refusal(given),
            shardclock.shown(given)
                || ' is not an ISO 8601 date-time of the years 0001 to 9999; write it like 2026-01-31T08:00:00Z'
        );
        return;
    end if;
    if m[8] is null and m[9] is null and zone = 'UTC' then
        refusal := shardclock.shown(given)
            || ' has no offset from UTC; add one, such as Z or +01:00, or a zone such as [Europe/Berlin]';
        return;
    end if;
    begin
        local := make_timestamp(
            m[1]::integer, m[2]::integer, m[3]::integer, m[4]::integer, m[5]::integer, coalesce(m[6], '0')::integer
        );
    exception when datetime_field_overflow then
        refusal := shardclock.shown(given)
            || ' names a day that is not in the calendar of the years 0001 to 9999; choose another';
        return;
    end;
    shift := case
        when m[8] in ('Z', 'z') then interval '0'
        else make_interval(hours => substr(m[8], 2, 2)::integer, mins => right('00' || ltrim(substr(m[8], 4), ':'), 2)::integer)
            * (left(m[8], 1) || '1')::integer
    end;
    moment := (local - shift) at time zone 'UTC';
    if m[8] is null or m[9] is not null then
        by_zone := shardclock.to_utc(local, said_zone);
    end if;
    if m[8] is null then
        moment := by_zone;
    elsif m[9] is not null and m[8] not in ('Z', 'z')
        and moment <> by_zone and shardclock.clock_of(moment, said_zone) <> local
    then
        shift := local - by_zone at time zone 'UTC';
        refusal := format(
            '%s has another offset than %s at that time; write %s, or none', shardclock.shown(given), said_zone,
            case when shift < interval '0' then '-' else '+' end || to_char(
                case when shift < interval '0' then -shift else shift end,
                case when extract(second from shift) = 0 then 'HH24:MI' else 'HH24:MI:SS' end
            )
        );
        return;
    end if;
    moment := moment + ceil(('0.' || coalesce(m[7], '0'))::numeric * 1000000) * interval '1 microsecond';
    if moment not between '0001-01-01 00:00:00+00' and '9999-12-31 23:59:59.999997+00' then
        refusal := shardclock.shown(given) || ' falls outside the years 0001 to 9999 in UTC; choose a moment within';
    end if;
end
$$;

comment on function shardclock.judged_moment is 'Internal: Says why a text is no moment; else which one.';

-- The sentence for a rule that is well-formed and never occurs.
create function shardclock.never_occurs(given text)
returns text
language sql
stable
begin atomic
    select format(
        '%s never occurs after %sZ; choose one with a date in the calendar, before its end and the year 10000',
        shardclock.shown(given),
        rtrim(rtrim(to_char(now() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US'), '0'), '.')
    );
end;

comment on function shardclock.never_occurs is 'Internal: The sentence for a rule that never occurs.';

-- Returns the refusal of an ISO 8601 repeat with times on the clock of a zone; null: it occurs.
create function shardclock.repeat_refusal(given text, zone text)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    part constant text := '((?:[^][/]|[[][^][]*[]])*)';
    shown constant text := shardclock.shown(given);
    m text[] := case
        when length(given) <= 200 then regexp_match(given, '^R([+-]?[0-9]+)?/(?:' || part || '/)?' || part || '$')
    end;
    refusal text;
    period text;
    moments text[];
    found record;
    first_at timestamptz;
    last_at timestamptz;
begin
    if coalesce(m[3], '') = '' then
        return coalesce(
            shardclock.at_sign_refusal(given),
            shown || ' is not an ISO 8601 repeat; write R/PT1H, R3/PT1H for three times, or R/2026-01-31T08:00:00Z/P1D '
                'from a start on'
        );
    end if;
    if m[1] <> '-1' and (m[1] like '-%' or m[1]::numeric > 2147483647) then
        return format(
            '%s has the count %s; write R0 to R2147483647, or R without end', shown,
            case when abs(m[1]::numeric) < 2::numeric ^ 180 then m[1]::numeric::text else 'an integer of over 50 digits' end
        );
    end if;
    refusal := shardclock.brackets_refusal(given, zone);
    if refusal is not null then
        return refusal;
    end if;
    zone := coalesce(substring(given from '[[]([^][]*)[]]'), zone);
    if coalesce(m[2], '') = '' or ltrim(m[2], '+-') ~* '^P' then
        period := coalesce(nullif(m[2], ''), m[3]);
        moments := case when period = m[2] then array[m[3]] else '{}' end;
    else
        period := case when ltrim(m[3], '+-') ~* '^P' then m[3] end;
        moments := case when period is null then array[m[2], m[3]] else array[m[2]] end;
    end if;
    for i in 1 .. cardinality(moments) loop
        -- A period is read where it stands: before the end, and after the start.
        exit when i = 1 and period = m[2] and shardclock.period_refusal(given, period) is not null;
        select * into found from shardclock.judged_moment(moments[i], zone);
        if found.refusal is not null then
            return format('%s has no valid start or end: %s', shown, found.refusal);
        end if;
        if shardclock.clock_of(found.moment, zone) not between '0001-01-01' and '9999-12-31 23:59:59.999999' then
            return format(
                '%s leaves the years 0001 to 9999 on the clock of %s; choose another start or end', shown, zone
            );
        end if;
        first_at := coalesce(first_at, found.moment);
        last_at := found.moment;
    end loop;
    if period is null then
        return case
            when last_at <= first_at
                then shown || ' ends before it begins, or at once; its end must come after its start, by one period'
            else shardclock.frequency_refusal(given, m[1], extract(epoch from last_at - first_at))
        end;
    end if;
    refusal := coalesce(
        shardclock.period_refusal(given, period),
        -- A period is rounded up to microseconds, and its average in days has a limited number of digits.
        (
            select shardclock.frequency_refusal(given, m[1], ceil(round(d.average_days * 86400000000, 6)) / 1000000)
            from shardclock.judged_duration(period) as d
        )
    );
    if refusal is not null then
        return refusal;
    end if;
    -- Without a start it occurs a period from now; a start that has passed is the grid of the next occurrences.
    if moments = '{}' or period = m[2] or first_at < now() then
        begin
            first_at := shardclock.later(
                case when moments = '{}' or period = m[2] then now() else first_at end,
                shardclock.parse_delay(period, 'schedule'), zone
            );
        exception when datetime_field_overflow or interval_field_overflow or invalid_parameter_value then
            return shardclock.never_occurs(given);
        end;
    end if;
    return case
        when first_at > least(case when period = m[2] then last_at end, '9999-12-31 23:59:59.999997+00')
            then shardclock.never_occurs(given)
    end;
end
$$;

comment on function shardclock.repeat_refusal is 'Internal: Says why a text is no ISO 8601 repeat; null: it is one.';

-- As timers/repeat.py: ten thousand repeats of a millisecond would take all that a cluster can fire.
create function shardclock.frequency_refusal(given text, count text, period_s numeric)
returns text
language sql
immutable
begin atomic
    select shardclock.shown(given)
        || ' repeats more often than once a second; write a period of PT1S or longer, or a count of at most 10'
    where period_s < 1 and coalesce(nullif(count, '')::numeric, -1) not between 0 and 10;
end;

comment on function shardclock.frequency_refusal is
    'Internal: Says that a repeat without end, or with a high count, has a period of less than a second; null: it has not.';

create function shardclock.period_refusal(given text, period text)
returns text
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    found record;
begin
    select * into found from shardclock.judged_duration(period);
    return case
        when found.refusal is not null
            then format('%s has no valid period: %s', shardclock.shown(given), found.refusal)
        when found.average_days = 0
            then shardclock.shown(given) || ' has a period of zero; write one longer than zero, such as PT1S'
    end;
end
$$;

comment on function shardclock.period_refusal is 'Internal: Says why a part of a repeat is no period; null: it is one.';

-- Reads one number or name of a cron field; null: it is neither.
create function shardclock.cron_number(word text, names text[], lowest integer)
returns numeric
language sql
immutable
begin atomic
    select coalesce(
        array_position(names, word) - 1 + lowest, case when word ~ '^[0-9]+$' then word::numeric end
    );
end;

comment on function shardclock.cron_number is 'Internal: Reads a number or a name of a cron field; null: it is neither.';

-- Reads an item of a cron field: why it is none, or its numbers as bits.
create function shardclock.judged_cron_item(
    item text, field text, lowest integer, highest integer, star integer, names text[], more text,
    out refusal text, out bits bigint
)
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    m text[] := regexp_match(item, '^(?:[*]|([0-9]+|[A-Z]{3})(?:-([0-9]+|[A-Z]{3}))?)(?:/([0-9]+))?$');
    word text := item;
    numbers numeric[];
begin
    numbers := array[shardclock.cron_number(m[1], names, lowest), shardclock.cron_number(m[2], names, lowest)];
    if m is not null then
        word := case when m[1] is not null and numbers[1] is null then m[1]
            when m[1] is not null and numbers[1] between lowest and highest and m[2] is not null and numbers[2] is null then m[2]
        end;
    end if;
    refusal := case
        when item = '?'
            then 'has the ' || field || ' ''?'', which only stands alone in a day field of six-field cron; write *'
        when word is not null
            then format(
                'has the %s %s; write * or %s to %s%s, in lists (1,2), ranges (1-5) and steps (*/2)%s', field,
                shardclock.shown(word), lowest, highest,
                case when names <> '{}' then ' or ' || names[1] || ' to ' || names[cardinality(names)] else '' end, more
            )
        when numbers[1] not between lowest and highest
            then format('has the %s %s; write %s to %s', field, shardclock.shown(m[1]), lowest, highest)
        when numbers[2] not between lowest and highest
            then format('has the %s %s; write %s to %s', field, shardclock.shown(m[2]), lowest, highest)
    end;
    if refusal is not null then
        return;
    end if;
    if m[2] is not null and field = 'day-of-week' then
        -- A week may begin or end with Sunday.
        numbers := array[
            numbers[1] % 7,
            case when numbers[2] <> 0 then numbers[2] when m[2] = 'SUN' then 7 else 0 end
        ];
        if numbers = '{0,7}' and (m[1], m[2]) <> ('0', '7') then
            refusal := format(
                'has the %s %s; write SUN for Sundays, or * for every day', field, shardclock.shown(item)
            );
            return;
        end if;
    end if;
    refusal := case
        when numbers[1] > numbers[2]
            then format(
                'has the %s %s, which runs backwards; write the lower bound first, or two ranges with a comma', field,
                shardclock.shown(item)
            )
        when m[3]::numeric = 0
            then format('has the %s %s, whose step is zero; write a step of 1 or more', field, shardclock.shown(item))
    end;
    numbers := case
        when m[1] is null then array[star, highest]
        when m[2] is null and m[3] is null then array[numbers[1], numbers[1]]
        when m[2] is null then array[numbers[1], highest]
        else numbers
    end;
    if refusal is null then
        select bit_or(1::bigint << n.n) into bits
        from generate_series(numbers[1]::integer, numbers[2]::integer, least(coalesce(m[3], '1')::numeric, 1000)::integer) as n (n);
    end if;
end
$$;

comment on function shardclock.judged_cron_item is
    'Internal: Says why a text is no item of a cron field; else its numbers, as bits.';

-- The days that an item of a day field picks in a month of some length that begins on some weekday (0 is Monday).
create function shardclock.cron_days(item text, bits bigint, is_weekday boolean, begins_on integer, length integer)
returns bigint
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    day constant integer := case
        when item in ('L', 'LW') then length
        when item ~ '^L-' then length - substr(item, 3)::integer
        when item ~ '^[0-9]+W$' then rtrim(item, 'W')::integer
    end;
    weekday integer;
    picked bigint := 0;
begin
    if not is_weekday then
        if day is null then
            return bits & ((1::bigint << (length + 1)) - 2);
        end if;
        if day < 1 or day > length then
            return 0;
        end if;
        if item !~ 'W$' then
            return 1::bigint << day;
        end if;
        weekday := (begins_on + day - 1) % 7;
        return 1::bigint << case
            when weekday = 5 then case when day > 1 then day - 1 else day + 2 end
            when weekday = 6 then case when day < length then day + 1 else day - 2 end
            else day
        end;
    end if;
    for d in 1 .. length loop
        -- In cron 0 is Sunday.
        weekday := (begins_on + d) % 7;
        if (bits >> weekday) & 1 = 1 or (weekday = 0 and (bits >> 7) & 1 = 1) then
            if item ~ 'L$' then
                picked := case when d > length - 7 then 1::bigint << d else picked end;
            elsif item !~ '#' or (d - 1) / 7 + 1 = substring(item from '#([0-9]+)$')::integer then
                picked := picked | (1::bigint << d);
            end if;
        end if;
    end loop;
    return picked;
end
$$;

comment on function shardclock.cron_days is 'Internal: The days of a month that an item of a cron rule picks, as bits.';

-- Reads an item of a day field, which may also be L, LW, L-3, 15W, 5L or 5#2.
create function shardclock.judged_cron_day(item text, is_weekday boolean, out refusal text, out bits bigint)
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    m text[];
    names constant text[] := case when is_weekday then '{SUN,MON,TUE,WED,THU,FRI,SAT}'::text[] else '{}' end;
begin
    if not is_weekday then
        if item = 'LW' or item = 'L' then
            return;
        end if;
        m := regexp_match(item, '^L-([0-9]+)$');
        if m is not null then
            if m[1]::numeric not between 1 and 30 then
                refusal := format('has the day-of-month %s; write L-1 to L-30', shardclock.shown(item));
            end if;
            return;
        end if;
        m := regexp_match(item, '^([0-9]+)W$');
        if m is not null then
            if m[1]::numeric not between 1 and 31 then
                refusal := format('has the day-of-month %s; write 1 to 31', shardclock.shown(m[1]));
            end if;
            return;
        end if;
        select j.refusal, j.bits into refusal, bits
        from shardclock.judged_cron_item(item, 'day-of-month', 1, 31, 1, '{}', ', L, LW, L-3 or 15W') j;
        return;
    end if;
    m := regexp_match(item, '^([0-9]+|[A-Z]{3})(?:L|#([0-9]+))$');
    select j.refusal, j.bits into refusal, bits
    from shardclock.judged_cron_item(
        coalesce(m[1], item), 'day-of-week', 0, 7, 0, names, ', 5L or 5#2'
    ) j;
    if refusal is null and m[2]::numeric not between 1 and 5 then
        refusal := format('has the day-of-week %s; write #1 to #5', shardclock.shown(item));
    end if;
end
$$;

comment on function shardclock.judged_cron_day is
    'Internal: Says why a text is no item of a day field of cron; else its numbers, as bits.';

-- Judges a cron rule; null: it occurs.
create function shardclock.cron_refusal(given text)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    shown constant text := shardclock.shown(given);
    months constant text[] := '{JAN,FEB,MAR,APR,MAY,JUN,JUL,AUG,SEP,OCT,NOV,DEC}';
    nicknames constant text[] := '{@yearly,@annually,@monthly,@weekly,@daily,@midnight,@hourly}';
    m text[] := regexp_match(given, '^[[:space:]]*((?:CRON_)?TZ=([^[:space:]]*))');
    words text[];
    is_spring boolean;
    found record;
    item text;
    chosen_months bigint := 0;
    days bigint;
    weekdays bigint;
begin
    if m is not null then
        return format('%s names a zone; leave %s out, and give %s as zone', shown, m[1], shardclock.shown(m[2]));
    end if;
    if length(given) > 200 then
        return shown || ' is longer than 200 characters; write a shorter cron rule';
    end if;
    if given collate "C" ~ '[^ -~]' then
        return shown || ' holds a character that cron has no use for; write ASCII letters, digits, signs and spaces on '
            'one line';
    end if;
    words := regexp_split_to_array(upper(btrim(given, ' ')), ' +');
    if words[1] ^@ '@' then
        return case
            when array_to_string(words, ' ') <> all (array(select upper(n) from unnest(nicknames) n))
                then format(
                    '%s is not a nickname that we know; write one of %s', shown, array_to_string(nicknames, ', ')
                )
        end;
    end if;
    if words = '{""}' then
        words := '{}';
    end if;
    if cardinality(words) not in (5, 6) then
        return shown || case
            when cardinality(words) = 7
                then ' has seven fields, the seventh being Quartz''s year; write six, without the year'
            else format(
                ' has %s field%s; write six (second minute hour day-of-month month day-of-week) or five (without the '
                'second)', cardinality(words), case when cardinality(words) = 1 then '' else 's' end
            )
        end;
    end if;
    is_spring := cardinality(words) = 6;
    words := case when is_spring then words else array['0'] || words end;
    for found in
        select j.refusal, f.number, j.bits
        from (
            -- In the order in which Python reads them.
            values (1, 'second', 0, 59, 0, '{}'::text[], ''), (2, 'minute', 0, 59, 0, '{}', ''),
                (3, 'hour', 0, 23, 0, '{}', '')
        ) as f (number, field, lowest, highest, star, names, more)
        cross join lateral unnest(string_to_array(words[f.number], ',')) with ordinality as i (item, place)
        cross join lateral shardclock.judged_cron_item(
            i.item, f.field, f.lowest, f.highest, f.star, f.names, f.more
        ) j
        order by f.number, i.place
    loop
        if found.refusal is not null then
            return shown || ' ' || found.refusal;
        end if;
    end loop;
    if is_spring then
        words[4] := case when words[4] = '?' then '*' else words[4] end;
        words[6] := case when words[6] = '?' then '*' else words[6] end;
    end if;
    for found in
        select j.refusal
        from (values (4, false), (6, true)) as f (number, is_weekday)
        cross join lateral unnest(string_to_array(words[f.number], ',')) with ordinality as i (item, place)
        cross join lateral shardclock.judged_cron_day(i.item, f.is_weekday) j
        where j.refusal is not null
        order by f.number, i.place
        limit 1
    loop
        return shown || ' ' || found.refusal;
    end loop;
    foreach item in array string_to_array(words[5], ',') loop
        select * into found from shardclock.judged_cron_item(item, 'month', 1, 12, 1, months, '');
        if found.refusal is not null then
            return shown || ' ' || found.refusal;
        end if;
        chosen_months := chosen_months | found.bits;
    end loop;
    if words[4] ^@ '*' and words[6] ^@ '*' then
        return null;
    end if;
    -- Each month may begin on any weekday, and February has 28 or 29 days.
    for length in 28 .. 31 loop
        continue when chosen_months & case length
            when 30 then (1 << 4) | (1 << 6) | (1 << 9) | (1 << 11)
            when 31 then (1 << 1) | (1 << 3) | (1 << 5) | (1 << 7) | (1 << 8) | (1 << 10) | (1 << 12)
            else 1 << 2
        end = 0;
        for begins_on in 0 .. 6 loop
            select
                bit_or(shardclock.cron_days(i.item, j.bits, false, begins_on, length))
                    filter (where not f.is_weekday),
                bit_or(shardclock.cron_days(i.item, j.bits, true, begins_on, length)) filter (where f.is_weekday)
            into days, weekdays
            from (values (4, false), (6, true)) as f (number, is_weekday)
            cross join lateral unnest(string_to_array(words[f.number], ',')) as i (item)
            cross join lateral shardclock.judged_cron_day(i.item, f.is_weekday) j;
            days := case
                when is_spring or words[4] ^@ '*' or words[6] ^@ '*' then days & weekdays
                else days | weekdays
            end;
            if days <> 0 then
                return null;
            end if;
        end loop;
    end loop;
    return shardclock.never_occurs(upper(array_to_string(regexp_split_to_array(btrim(given, ' '), ' +'), ' ')));
end
$$;

comment on function shardclock.cron_refusal is 'Internal: Says why a text is no cron rule; null: it is one.';

-- Says why no shard can plan a rule; null: each can.
create function shardclock.rule_refusal(given text, zone text)
returns text
language sql
stable
begin atomic
    select case
        when ltrim(given, E' \t\r\n+-') ~ '^[RrPp]' then shardclock.repeat_refusal(given, zone)
        else shardclock.cron_refusal(given)
    end;
end;

comment on function shardclock.rule_refusal is 'Internal: Says why no shard can plan a rule; null: each can.';

-- The only way in which a rule is checked, before its row is written.
drop function shardclock.check_schedule(text);
create function shardclock.check_schedule(given text, zone text)
returns void
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    refusal text := shardclock.rule_refusal(given, zone);
begin
    if refusal is not null then
        raise exception 'schedule %', refusal using errcode = 'invalid_parameter_value';
    end if;
end
$$;

comment on function shardclock.check_schedule is 'Internal: Refuses a rule that no shard can plan.';

create or replace function shardclock.check_zone(zone text)
returns void
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    refusal text := shardclock.zone_refusal(zone);
begin
    if zone is null or refusal is not null then
        raise exception 'zone %', coalesce(refusal, 'null is not an IANA time zone; write one such as UTC or Europe/Berlin')
            using errcode = 'invalid_parameter_value';
    end if;
end
$$;

create or replace function shardclock.agreed_zone(schedule text, beside text)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    refusal text := shardclock.brackets_refusal(schedule, beside);
begin
    if refusal is not null then
        raise exception 'schedule %', refusal using errcode = 'invalid_parameter_value';
    end if;
    return coalesce(substring(schedule from '[[]([^][]*)[]]'), beside);
end
$$;

create or replace function shardclock.parse_delay(given text, field text)
returns interval
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    few_digits constant text := '^P(?=.)([0-9]{1,3}Y)?([0-9]{1,4}M)?([0-9]{1,5}W)?([0-9]{1,6}D)?'
        '(T(?=[0-9])([0-9]{1,7}H)?([0-9]{1,9}M)?([0-9]{1,10}S)?)?$';
    plain text := shardclock.plain_length(given);
    fraction text[] := regexp_match(plain, 'T.*[0-9][.,]([0-9]+)([HMS])$');
    whole text := case when fraction is null then plain else regexp_replace(plain, '[.,][0-9]+([HMS])$', E'\\1') end;
    refusal text;
begin
    -- Of so few digits it is shorter than 10,000 years. Most durations are.
    if length(given) > 100 or whole !~ few_digits then
        select j.refusal into refusal from shardclock.judged_duration(given) j;
        if refusal is not null then
            raise exception '% %', field, refusal using errcode = 'invalid_parameter_value';
        end if;
    end if;
    -- Fractions finer than a microsecond are rounded up, so that a timer is never early.
    return whole::interval + coalesce(
        ceil(
            ('0.' || fraction[1])::numeric
            * case fraction[2] when 'H' then 3600000000 when 'M' then 60000000 else 1000000 end
        ) * interval '1 microsecond',
        interval '0'
    );
exception when interval_field_overflow or datetime_field_overflow then
    raise exception '% "%" is too long: it must end before year 10000', field, left(given, 60)
        using errcode = 'invalid_parameter_value';
end
$$;

create or replace function shardclock.add_job(
    name text,
    of_job text,
    every interval default null,
    schedule text default null,
    zone text default 'UTC',
    missed text default 'fire_once',
    overlap text default null,
    priority integer default null,
    config jsonb default null
)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    model shardclock.jobs;
    job shardclock.jobs;
    refusal text;
begin
    perform shardclock.lock_job_names(shared => true);
    select j.* into model from shardclock.jobs j where j.name = of_job and j.declared is not null;
    refusal := case
        when name is null or name !~ '^[a-z0-9][a-z0-9_.-]{0,99}$'
            then format(
                'name "%s" must have 1 to 100 characters of a-z, 0-9, _ . and -, and begin with a letter or digit',
                left(name, 60)
            )
        when model.name is null
            then format('of_job "%s" is unknown: name a job that an app declares', left(of_job, 60))
        when model.withdrawn_at is not null then shardclock.unknown_job(of_job, 'default')
        when num_nonnulls(every, schedule) > 1 then 'give every or schedule, or neither: then it runs on request'
        when extract(year from every) <> 0 or extract(month from every) <> 0
            then format('every "%s" has years or months, whose length depends on the date: give days', every)
        when extract(epoch from every) not between 0.1 and 31536000
            then format('every "%s" must be from 0.1 s to 365 days', every)
        when missed is null or missed not in ('fire_once', 'fire_all', 'skip')
            then format('missed "%s" is unknown: use fire_once, fire_all or skip', left(missed, 60))
        when overlap not in ('skip', 'queue', 'replace')
            then format('overlap "%s" is unknown: use skip, queue or replace', left(overlap, 60))
        when priority not between 1 and 4 then format('priority %s must be from 1 to 4', priority)
        when shardclock.end_of_rule(schedule) is not null then shardclock.end_of_rule(schedule)
        when octet_length(config::text) > 65536
            then format('config has %s bytes: the limit is 65536 (64 KiB)', octet_length(config::text))
    end;
    if refusal is not null then
        raise exception '%', refusal using errcode = 'invalid_parameter_value';
    end if;
    if schedule is not null then
        perform shardclock.check_zone(zone), shardclock.check_schedule(schedule, zone);
        zone := shardclock.agreed_zone(schedule, zone);
    end if;
    insert into shardclock.jobs (
        name, function, every_s, schedule, zone, missed, overlap, priority, config, policy
    )
    values (
        name, model.function, extract(epoch from every), schedule, zone, missed, coalesce(overlap, model.overlap),
        coalesce(priority, model.priority), coalesce(config, model.config), model.policy
    )
    on conflict do nothing
    returning jobs.* into job;
    if job.name is null then
        raise exception 'job "%" is there already: remove it first, or choose another name', name
            using errcode = 'unique_violation';
    end if;
    perform shardclock.resume_job(job);
    return job.state;
end
$$;

create or replace function shardclock.refused_job(said jsonb)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    fields constant jsonb := '{
        "name": "string", "function": "string", "every_s": "number", "schedule": "string", "zone": "string",
        "missed": "string", "overlap": "string", "priority": "number", "policy": "object", "disabled": "boolean"
    }';
    wrong text;
    known shardclock.jobs;
begin
    if jsonb_typeof(said) is distinct from 'object' then
        return 'job is refused: it must be an object of its fields';
    end if;
    select
        case
            when not fields ? s.key
                then format(
                    'field "%s" is unknown: the fields are name, function, every_s, schedule, zone, missed, overlap, '
                    'priority, config, policy and disabled', left(s.key, 60)
                )
            else format('%s %s is refused: it must be a JSON %s', s.key, left(s.value::text, 60), fields ->> s.key)
        end
    into wrong
    from jsonb_each(said) s
    where s.key <> 'config'
        and (not fields ? s.key or jsonb_typeof(s.value) not in (fields ->> s.key, 'null'))
    order by s.key
    limit 1;
    select j.* into known from shardclock.jobs j where j.name = said ->> 'name';
    wrong := case
        when wrong is not null then wrong
        when (said ->> 'name' ~ '^[a-z0-9][a-z0-9_.-]{0,99}$') is not true
            then format(
                'name "%s" must have 1 to 100 characters of a-z, 0-9, _ . and -, and begin with a letter or digit',
                left(said ->> 'name', 60)
            )
        when (said ->> 'function' ~ '^[^:[:space:][:cntrl:]]{1,200}:[^:[:space:][:cntrl:]]{1,200}$') is not true
            then format('function "%s" must be package.module:function', left(said ->> 'function', 60))
        when known.declared is not null and known.withdrawn_at is null
            then format(
                'name "%s" is of a job that an app declares: change it there, or give this one another name', known.name
            )
        when known.declared is not null
            then format(
                'name "%s" is of a job that an app had declared: remove it (shardclock jobs remove), or give this one '
                'another name', known.name
            )
        when said ->> 'every_s' is not null and said ->> 'schedule' is not null
            then 'give every_s or schedule, or neither: then it runs on request'
        when (said ->> 'every_s')::numeric not between 0.1 and 31536000
            then format('every_s %s must be from 0.1 s to 365 days', left(said ->> 'every_s', 60))
        when said ->> 'missed' not in ('fire_once', 'fire_all', 'skip')
            then format('missed "%s" is unknown: use fire_once, fire_all or skip', left(said ->> 'missed', 60))
        when said ->> 'overlap' not in ('skip', 'queue', 'replace')
            then format('overlap "%s" is unknown: use skip, queue or replace', left(said ->> 'overlap', 60))
        when (said ->> 'priority')::numeric not in (1, 2, 3, 4)
            then format('priority %s must be from 1 to 4', left(said ->> 'priority', 60))
        when octet_length((said -> 'config')::text) > 65536
            then format('config has %s bytes: the limit is 65536 (64 KiB)', octet_length((said -> 'config')::text))
        when length((said -> 'policy')::text) > 2000 then 'policy has more than 2,000 characters'
        when shardclock.end_of_rule(said ->> 'schedule') is not null
            then shardclock.end_of_rule(said ->> 'schedule')
    end;
    if wrong is not null or said ->> 'schedule' is null and said ->> 'zone' is null then
        return wrong;
    end if;
    perform shardclock.check_zone(coalesce(said ->> 'zone', 'UTC'));
    if said ->> 'schedule' is not null then
        perform shardclock.check_schedule(said ->> 'schedule', coalesce(said ->> 'zone', 'UTC'));
    end if;
    return null;
exception
    when invalid_parameter_value then
        return sqlerrm;
end
$$;

-- Without a backslash, which a session may read as an escape (standard_conforming_strings).
create or replace function shardclock.end_of_rule(schedule text)
returns text
language sql
immutable
parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select
        case
            when schedule ~* '^R[+]?[0-9]'
                then format(
                    'schedule "%s" comes to an end, and a job goes on: write R/ without a number', left(schedule, 60)
                )
            when schedule ~* '^R.*/[+-]?P[^/]*/[^/]+$'
                then format(
                    'schedule "%s" comes to an end, and a job goes on: write its start before the duration, or none',
                    left(schedule, 60)
                )
        end
$$;
