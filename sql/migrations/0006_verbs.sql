-- The verbs: all changes to pending timers. `…_timers` take keys and return the keys of the timers they changed;
-- `…_timer` take one timer, by its key or by its name, and return its state. `find_timers` gives the keys for a filter.
--
-- A verb must search by index, whatever the planner believes about the table's size. So each sets enable_seqscan off
-- for itself: docs/decisions/0005-queue-plans.md.

create function shardclock.check_one_timer(timer_key bigint, name text)
returns void
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    if num_nonnulls(timer_key, name) <> 1 then
        raise exception 'say which timer: give either timer_key or name (with its tenant_id)'
            using errcode = 'invalid_parameter_value';
    end if;
end
$$;

-- Finds the pending timer that has this name now; after each firing of a schedule that is another timer.
create function shardclock.pending_key(timer_key bigint, name text, tenant_id text)
returns bigint
language sql
volatile
set enable_seqscan = off
begin atomic
    select t.timer_key
    from shardclock.timers t
    where t.timer_key = pending_key.timer_key or (t.tenant_id = pending_key.tenant_id and t.name = pending_key.name);
end;

create function shardclock.ended_as(timer_key bigint, name text, tenant_id text)
returns text
language sql
volatile -- For a new snapshot: the caller has just waited for another transaction's commit.
begin atomic
    select coalesce(
        (
            select l.intent from shardclock.command_log l
            where l.timer_key = ended_as.timer_key and l.intent in ('TRIGGERED', 'CANCELED', 'SKIPPED')
            order by l.intent = 'SKIPPED'
            limit 1
        ),
        (
            -- The last record by position, because a clock may have been set back. The index by name has only times, so
            -- this searches the records of the last day: no clock is set back by more.
            select l.intent from shardclock.command_log l
            where l.tenant_id = ended_as.tenant_id and l.name = ended_as.name
                and l.recorded_at >= (
                    select max(n.recorded_at) - interval '1 day' from shardclock.command_log n
                    where n.tenant_id = ended_as.tenant_id and n.name = ended_as.name
                )
                and (l.intent in ('TRIGGERED', 'CANCELED') or (l.intent = 'SKIPPED' and l.detail ->> 'policy' = 'skip'))
            -- An expression, so that the planner does not scan the index on position for it.
            order by l.position + 0 desc
            limit 1
        ),
        'UNKNOWN'
    );
end;

-- Writes the record of a verb; every verb calls this.
create function shardclock.log_of(timers shardclock.timers, intent text, due_date timestamptz, detail jsonb)
returns void
language sql
begin atomic
    select case log_of.intent
        when 'CANCELED' then nextval('shardclock.canceled_seq')
        when 'RESCHEDULED' then nextval('shardclock.rescheduled_seq')
        when 'PAUSED' then nextval('shardclock.paused_seq')
        when 'RESUMED' then nextval('shardclock.resumed_seq')
    end;
    insert into shardclock.command_log (
        timer_key, process_instance_key, element_instance_key, due_date, created_at, occurrence,
        intent, tenant_id, timer_type, target, target_element_id, name, schedule, payload, detail
    )
    values (
        (timers).timer_key, (timers).process_instance_key, (timers).element_instance_key, log_of.due_date,
        (timers).created_at, (timers).occurrence, log_of.intent, (timers).tenant_id, (timers).timer_type,
        (timers).target, (timers).target_element_id, (timers).name, (timers).schedule, (timers).payload,
        jsonb_strip_nulls(log_of.detail || jsonb_build_object('by', current_user))
    );
end;

create function shardclock.cancel_timers(timer_keys bigint[], reason text default null)
returns setof bigint
language sql
set enable_seqscan = off
begin atomic
    with gone as (
        delete from shardclock.timers t
        where t.timer_key = any (timer_keys)
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

comment on function shardclock.cancel_timers is $$Cancels the pending and paused timers among these, each with its
record.

timer_keys: the timers' keys, for example from find_timers; timers that have ended are ignored
reason: kept in the records
returns: the keys of the timers that were cancelled
errors: none of its own
example: select shardclock.cancel_timers(array(select timer_key from shardclock.find_timers(tenant_id => 'acme', name_prefix => 'order-')), 'closed');
$$;

create function shardclock.pause_timers(timer_keys bigint[], reason text default null)
returns setof bigint
language sql
set enable_seqscan = off
begin atomic
    with paused as (
        -- This ends the claim: a shard that has the timer in memory can't fire it any more.
        update shardclock.timers t
        set paused_due_date = t.due_date, due_date = '9999-12-31 23:59:59.999998+00',
            claimed_by = null, claimed_until = null
        where t.timer_key = any (timer_keys) and t.paused_due_date is null
        returning t as timer
    )
    select (p.timer).timer_key
    from paused p
    cross join lateral shardclock.log_of(
        p.timer, 'PAUSED', (p.timer).paused_due_date, jsonb_build_object('reason', reason)
    );
end;

comment on function shardclock.pause_timers is $$Keeps the pending timers among these from firing until they are
resumed.

as: cancel_timers
returns: the keys of the timers that were paused
example: select shardclock.pause_timers(array(select timer_key from shardclock.find_timers(tenant_id => 'acme')), 'month-end close');
$$;

create function shardclock.resume_timers(timer_keys bigint[])
returns setof bigint
language sql
set enable_seqscan = off
begin atomic
    with resumed as (
        update shardclock.timers t
        set due_date = t.paused_due_date, paused_due_date = null, changed_at = clock_timestamp()
        where t.timer_key = any (timer_keys) and t.paused_due_date is not null
        returning t as timer
    )
    select (r.timer).timer_key
    from resumed r
    cross join lateral shardclock.log_of(r.timer, 'RESUMED', (r.timer).due_date, '{}');
end;

comment on function shardclock.resume_timers is $$Lets the paused timers among these go on. A timer that fell due during
the pause is due now, and its missed-run policy applies.

as: cancel_timers
returns: the keys of the timers that were resumed
example: select shardclock.resume_timers(array(select timer_key from shardclock.find_timers(state => 'PAUSED', tenant_id => 'acme')));
$$;

-- Moves timers: all to one due date, or each by the same length. The operation's name makes it safe to send again.
create function shardclock.move_timers(timer_keys bigint[], new_due timestamptz, shift interval, operation text)
returns setof bigint
language sql
set enable_seqscan = off
begin atomic
    with old as materialized (
        select t.timer_key, coalesce(t.paused_due_date, t.due_date) as due_date
        from shardclock.timers t
        where t.timer_key = any (timer_keys)
            and t.anchor_occurrence is not null
            and (
                operation is null
                or not exists (
                    select from shardclock.command_log l
                    where l.timer_key = t.timer_key
                        and l.intent = 'RESCHEDULED'
                        and l.detail ->> 'operation' = operation
                        -- A run (run_timers) under the same name is another operation.
                        and l.detail -> 'run_now' is null
                )
            )
        order by t.timer_key
        for update
    ),
    moved as (
        update shardclock.timers t
        set due_date = case
                when t.paused_due_date is not null then t.due_date
                else coalesce(new_due, shardclock.later(t.due_date, shift, t.zone))
            end,
            paused_due_date = case
                when t.paused_due_date is not null
                    then coalesce(new_due, shardclock.later(t.paused_due_date, shift, t.zone))
            end,
            changed_at = clock_timestamp(),
            claimed_by = null,
            claimed_until = null
        where t.timer_key = any (array(select old.timer_key from old))
        returning t as timer
    )
    select old.timer_key
    from moved m
    join old on old.timer_key = (m.timer).timer_key
    cross join lateral shardclock.log_of(
        m.timer,
        'RESCHEDULED',
        old.due_date,
        jsonb_build_object('due_date', coalesce((m.timer).paused_due_date, (m.timer).due_date), 'operation', operation)
    );
end;

create function shardclock.shift_timers(timer_keys bigint[], shift text, operation text default null)
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
    select shardclock.move_timers(timer_keys, null, shardclock.shift_length(shift), operation);
exception when datetime_field_overflow or check_violation then
    raise exception 'shift "%" is too long: it would move a timer out of the years 1 to 9999', left(shift, 60)
        using errcode = 'invalid_parameter_value';
end
$$;

comment on function shardclock.shift_timers is $$Moves the pending and paused timers among these by a length, each on
the calendar of its own zone. A schedule's grid stays.

as: cancel_timers
shift: an ISO 8601 duration, with a minus sign to move backwards: PT1H, -P1D
operation: a name for this shift, if it may be sent again: with the same name no timer moves twice
returns: the keys of the timers that were moved
errors: 22023 for a text that is no duration, or that would move a timer out of the years 1 to 9999
example: select shardclock.shift_timers(array(select timer_key from shardclock.find_timers(tenant_id => 'acme')), 'P1D', operation => 'acme-moves-on');
$$;

-- Gives schedules another rule. The pending occurrence gets its due date from the new rule, and keeps its number. The
-- rule counts from the moment when the row is locked, not from the start of the caller's transaction: else occurrences
-- that have fired between the two would fire again.
create function shardclock.change_rules(timer_keys bigint[], schedule text, zone text, missed text)
returns setof bigint
language sql
set enable_seqscan = off
begin atomic
    with old as materialized (
        select t.timer_key, coalesce(t.paused_due_date, t.due_date) as due_date
        from shardclock.timers t
        where t.timer_key = any (timer_keys)
        order by t.timer_key
        for update
    ),
    clock as materialized (
        -- The clock is read when all rows are locked.
        select clock_timestamp() as at from (select count(*) from old) locked
    ),
    changed as (
        update shardclock.timers t
        set schedule = change_rules.schedule,
            zone = coalesce(change_rules.zone, t.zone, 'UTC'),
            missed = coalesce(change_rules.missed, t.missed, 'fire_once'),
            name = coalesce(t.name, 'schedule-' || t.timer_key),
            -- If the clock was set back, occurrences that have fired must not be planned again.
            anchor = greatest((select c.at from clock c), case when t.occurrence > 1 then t.created_at end),
            anchor_occurrence = null,
            repetitions = -1,
            due_date = case when t.paused_due_date is null then (select c.at from clock c) else t.due_date end,
            paused_due_date = case when t.paused_due_date is not null then (select c.at from clock c) end,
            kept_due_date = null,
            changed_at = (select c.at from clock c),
            claimed_by = null,
            claimed_until = null
        where t.timer_key = any (array(select old.timer_key from old))
        returning t as timer
    )
    select old.timer_key
    from changed c
    join old on old.timer_key = (c.timer).timer_key
    cross join lateral shardclock.log_of(
        c.timer,
        'RESCHEDULED',
        old.due_date,
        jsonb_build_object('schedule', (c.timer).schedule, 'zone', (c.timer).zone, 'missed', (c.timer).missed)
    );
end;

-- Says whether an operation has run a timer. By name it finds the run even if the schedule has gone on to another
-- timer.
create function shardclock.was_run(operation text, timer_key bigint, name text, tenant_id text)
returns boolean
language sql
volatile -- For a new snapshot: the caller may have waited for the transaction that ran it.
set enable_seqscan = off
begin atomic
    select exists (
        select from shardclock.command_log l
        where l.detail ->> 'operation' = was_run.operation
            and l.detail ->> 'run_now' = 'true'
            and (l.timer_key = was_run.timer_key or (l.tenant_id = was_run.tenant_id and l.name = was_run.name))
    );
end;

-- Makes timers due now. A schedule gets one more occurrence, due now, with the number of the pending one. The next
-- number gets the pending one's due date, moved or not, and its place on the grid. If such a run was moved to a later
-- date, this makes it due now, and adds no second run.
create function shardclock.run_timers(timer_keys bigint[], operation text default null)
returns setof bigint
language sql
set enable_seqscan = off
begin atomic
    with old as materialized (
        select t.timer_key, t.due_date
        from shardclock.timers t
        where t.timer_key = any (timer_keys)
            -- Not now(): another transaction may have made the timer due after ours began.
            and t.due_date > clock_timestamp()
            and t.paused_due_date is null
            and t.anchor_occurrence is not null
            and (operation is null or not shardclock.was_run(operation, t.timer_key, t.name, t.tenant_id))
        order by t.timer_key
        for update
    ),
    clock as materialized (
        -- The clock is read when all rows are locked: if a shard has fired since our transaction began, this is later.
        select clock_timestamp() as at from (select count(*) from old) locked
    ),
    running as (
        update shardclock.timers t
        set due_date = (select c.at from clock c),
            changed_at = (select c.at from clock c),
            kept_due_date = case when t.schedule is not null then coalesce(t.kept_due_date, t.due_date) end,
            anchor_occurrence = t.anchor_occurrence
                + case when t.schedule is not null and t.kept_due_date is null then 1 else 0 end,
            repetitions = t.repetitions
                + case
                    when t.schedule is not null and t.kept_due_date is null and t.repetitions between 1 and 2147483646
                    then 1 else 0
                end,
            claimed_by = null,
            claimed_until = null
        where t.timer_key = any (array(select old.timer_key from old))
        returning t as timer
    )
    select old.timer_key
    from running r
    join old on old.timer_key = (r.timer).timer_key
    cross join lateral shardclock.log_of(
        r.timer,
        'RESCHEDULED',
        old.due_date,
        jsonb_build_object('due_date', (r.timer).due_date, 'run_now', true, 'operation', operation)
    );
end;

comment on function shardclock.run_timers is $$Makes the pending timers among these due now. A schedule runs once more,
and keeps its due dates.

as: cancel_timers
operation: a name for this run: if it is sent again with the same name, no timer runs twice
returns: the keys of the timers that were made due; timers that were due already or are paused are not among them
example: select shardclock.run_timers(array(select timer_key from shardclock.find_timers(tenant_id => 'acme', name_prefix => 'report-')));
$$;

-- Changes one timer, found by its key or its name; if it ended before we could lock it, searches again.
create function shardclock.change_timer(verb text, timer_key bigint, name text, tenant_id text, reason text)
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
            return state; -- there was nothing to change
        end if;
        -- The timer ended while we waited for its row. After a firing, the next occurrence has the same name.
    end loop;
    return shardclock.ended_as(timer_key, name, tenant_id);
end
$$;

create function shardclock.cancel_timer(
    timer_key bigint default null,
    name text default null,
    tenant_id text default 'default',
    reason text default null
)
returns text
language sql
begin atomic
    select shardclock.change_timer('cancel', timer_key, name, tenant_id, reason);
end;

comment on function shardclock.cancel_timer is $$Cancels a pending or paused timer.

timer_key: the timer's key; give either its key or its name
name: the timer's name; for a schedule this is the pending occurrence
tenant_id: the tenant that the name belongs to
reason: kept in the record
returns: CANCELED (now or before), or how it ended: TRIGGERED (too late: it has fired), SKIPPED (missed, with policy skip), UNKNOWN (there is no such timer)
errors: 22023 for neither key nor name, or both
example: select shardclock.cancel_timer(name => 'cart-7', reason => 'paid');
$$;

create function shardclock.pause_timer(
    timer_key bigint default null,
    name text default null,
    tenant_id text default 'default',
    reason text default null
)
returns text
language sql
begin atomic
    select shardclock.change_timer('pause', timer_key, name, tenant_id, reason);
end;

comment on function shardclock.pause_timer is $$Keeps a pending timer from firing until it is resumed.

as: cancel_timer
returns: PAUSED (now or before), or how it ended: TRIGGERED, CANCELED, SKIPPED or UNKNOWN
example: select shardclock.pause_timer(name => 'nightly', reason => 'month-end close');
$$;

create function shardclock.resume_timer(
    timer_key bigint default null,
    name text default null,
    tenant_id text default 'default'
)
returns text
language sql
begin atomic
    select shardclock.change_timer('resume', timer_key, name, tenant_id, null);
end;

comment on function shardclock.resume_timer is $$Lets a paused timer go on. If it fell due during the pause it is due
now, and its missed-run policy applies.

as: cancel_timer
returns: PENDING (now or before), or how it ended: TRIGGERED, CANCELED, SKIPPED or UNKNOWN
example: select shardclock.resume_timer(name => 'nightly');
$$;

create function shardclock.run_timer(
    timer_key bigint default null,
    name text default null,
    tenant_id text default 'default',
    operation text default null
)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
begin
    -- If the same operation is sent again while the first call still runs, this waits, and then finds its record.
    -- Without an operation the key is null, and this waits for nothing.
    perform pg_advisory_xact_lock(hashtextextended('shardclock.run_timer ' || operation, 0));
    if shardclock.was_run(operation, timer_key, name, tenant_id) then
        return 'RESCHEDULED';
    end if;
    return shardclock.change_timer('run', timer_key, name, tenant_id, operation);
end
$$;

comment on function shardclock.run_timer is $$Makes a pending timer due now. A schedule runs once more, and keeps its
due dates. If the call is sent again with the same operation, the timer does not run twice.

as: cancel_timer
operation: a name for this run, so that it can be sent again when an answer was lost
returns: RESCHEDULED (now, or before with this operation), PENDING (it was due already, so nothing was done and nothing recorded: if the operation is sent again after the timer has fired, it runs the schedule's next occurrence), PAUSED (resume it first), or how it ended: TRIGGERED, CANCELED, SKIPPED or UNKNOWN
example: select shardclock.run_timer(name => 'nightly', operation => 'deploy-17');
$$;

create function shardclock.reschedule_timer(
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

comment on function shardclock.reschedule_timer is $$Moves a pending or paused timer to another due date, or gives it
another rule. For a schedule, a due date, a delay or a shift moves only the next occurrence.

as: cancel_timer
due_date: the new due date. Give exactly one of due_date, delay, shift and schedule
delay: an ISO 8601 duration from now
shift: an ISO 8601 duration from its present due date, with a minus sign to move backwards
schedule: another rule; a plain timer becomes a schedule
zone: with schedule: its IANA time zone; null: as it was
missed: with schedule: its missed-run policy; null: as it was
returns: RESCHEDULED, or how it ended: TRIGGERED (too late: it has fired), CANCELED, SKIPPED or UNKNOWN
errors: 22023 for a wrong argument; 55000 for a schedule that has no date yet: a running cluster plans it within a tenth of a second
example: select shardclock.reschedule_timer(name => 'cart-7', delay => 'PT15M');
$$;

create function shardclock.cancel_process_instance(process_instance_key bigint, reason text default null)
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
        );
        exit when keys = '{}';
        -- A timer that fired while we waited for its row is gone, but its next occurrence may exist: read again.
        cancelled := cancelled + (select count(*) from shardclock.cancel_timers(keys, reason));
    end loop;
    return cancelled;
end
$$;

comment on function shardclock.cancel_process_instance is $$Cancels all timers of a process instance, pending and
paused.

process_instance_key: the process instance that the timers were scheduled for
reason: kept in the records
returns: how many timers were cancelled
errors: none of its own
example: select shardclock.cancel_process_instance(42, reason => 'the process ended');
$$;
