-- The timers of jobs and processes, which clients can neither write nor change.
--
-- A row's target tells whose it is: only the statements of jobs and processes write the targets `job:NAME` and
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

-- A batch of a client's timers passes its targets through this: the trigger can't tell whose statement writes a row.
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
        where not exists (
            select from shardclock.timers t where t.timer_key = k.timer_key and shardclock.is_of_system(t.target)
        )
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
        perform shardclock.check_zone(coalesce(zone, 'UTC')), shardclock.check_schedule(schedule);
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
        perform shardclock.check_schedule(schedule);
        wanted.zone := shardclock.agreed_zone(schedule, zone);
        -- A shard plans this schedule: until then it is due at once, so that a shard claims it, and it does not fire.
        wanted.due_date := now();
        wanted.repetitions := -1;
        wanted.anchor_occurrence := null;
        return wanted;
    end if;
    if rule[2] !~ '[1-9]' then
        raise exception 'schedule "%" has a period of zero: it must be longer', left(schedule, 60)
            using errcode = 'invalid_parameter_value';
    end if;
    -- Rn fires n times, R0 once; R and R-1 have no end.
    wanted.repetitions := case rule[1] when '' then -1 when '0' then 1 else rule[1]::bigint end;
    wanted.repetitions := case wanted.repetitions when 0 then 1 else wanted.repetitions end;
    wanted.due_date := shardclock.delay_from_now(rule[2], 'UTC', 'schedule');
    return wanted;
end
$$;
