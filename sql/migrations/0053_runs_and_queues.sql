-- A schedule that no shard has planned yet can run on request. Starts of a job keep the order of their requests.

-- An unplanned schedule (`anchor_occurrence` is null) with a `kept_due_date` has a run on request:
-- its `due_date` is that of the run, and plan_schedules writes the kept date from the rule.
comment on column shardclock.timers.kept_due_date is
    'Of a schedule that is run now: when the occurrence after this one is due, whatever the rule says. Before the '
    'schedule is planned it has any value. Null: no run was asked for.';

create or replace function shardclock.move_timers(timer_keys bigint[], new_due timestamptz, shift interval, operation text)
returns setof bigint
language sql
set enable_seqscan = off
begin atomic
    with old as materialized (
        select t.timer_key, coalesce(t.paused_due_date, t.due_date) as due_date
        from shardclock.timers t
        where t.timer_key = any (timer_keys)
            -- A run over an unplanned schedule can be given a date. A shift counts from the schedule's own date.
            and (t.anchor_occurrence is not null or (t.kept_due_date is not null and new_due is not null))
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

-- Gives schedules another rule. The pending occurrence gets its due date from the new rule, and keeps its number. A run
-- that was asked for and has not fired stays, and the new rule follows it. The rule counts from the moment when the row
-- is locked, not from the start of the caller's transaction: else occurrences that have fired between the two would
-- fire again.
create or replace function shardclock.change_rules(timer_keys bigint[], schedule text, zone text, missed text)
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
            due_date = case
                when t.paused_due_date is null and t.kept_due_date is null then (select c.at from clock c)
                else t.due_date
            end,
            paused_due_date = case
                when t.paused_due_date is not null and t.kept_due_date is null then (select c.at from clock c)
                else t.paused_due_date
            end,
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

-- Makes timers due now. A schedule gets one more occurrence, due now, with the number of the pending one. The next
-- number gets the pending one's due date, moved or not, and its place on the grid; for an unplanned schedule,
-- plan_schedules writes both. If that run was moved to a later date, this makes it due now, and adds no second run.
create or replace function shardclock.run_timers(timer_keys bigint[], operation text default null)
returns setof bigint
language sql
set enable_seqscan = off
begin atomic
    with old as materialized (
        select t.timer_key, t.due_date
        from shardclock.timers t
        where t.timer_key = any (timer_keys)
            and (
                -- Not now(): another transaction may have made the timer due after ours began.
                t.due_date > clock_timestamp()
                -- An unplanned schedule is due so that a shard plans it; it would not fire.
                or (t.schedule is not null and t.anchor_occurrence is null and t.kept_due_date is null)
            )
            and t.paused_due_date is null
            and shardclock.is_of_system(t.target) is not true
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

-- Deploying a new rule must not undo an operator's request: if the replaced timer was paused, the new one is paused
-- too, and a run of the replaced schedule that has not fired becomes a run of the new one, at the same date.
create or replace function shardclock.log_replaced(replaced shardclock.timers, replaced_by bigint)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    run_date constant timestamptz := coalesce(replaced.paused_due_date, replaced.due_date);
begin
    perform shardclock.log_of(
        replaced, 'CANCELED', run_date,
        jsonb_build_object('reason', format('replaced by timer %s', replaced_by), 'replaced_by', replaced_by)
    );
    if replaced.kept_due_date is not null
        and exists (select from shardclock.timers t where t.timer_key = replaced_by and t.schedule is not null)
    then
        perform shardclock.run_timers(array[replaced_by]);
        -- The run may have been moved to a later date.
        if found and run_date > clock_timestamp() then
            perform shardclock.move_timers(array[replaced_by], run_date, null, null);
        end if;
    end if;
    if replaced.paused_due_date is not null then
        perform shardclock.pause_timers(
            array[replaced_by], format('timer %s was, which it replaces', replaced.timer_key)
        );
    end if;
end
$$;

-- The first start of each job with a queue is found in the order in which the starts were asked for, whichever worker's
-- slot it is in: docs/decisions/0075-queues-keep-their-order.md.
create index deliveries_of_jobs_by_due_date on shardclock.deliveries (target, due_date, timer_key)
where target like 'job:%';

-- A start is due when it is asked for, not when its transaction began: else a start of a long transaction would come
-- before others that were asked for earlier.
create or replace function shardclock.run_job(name text, config jsonb default null)
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    why_not text := shardclock.unknown_job(run_job.name, 'default');
    key bigint;
begin
    if run_job.name is null or why_not is not null then
        raise exception '%', coalesce(why_not, 'job null is unknown: name one')
            using errcode = 'invalid_parameter_value';
    end if;
    if octet_length(run_job.config::text) > 65536 then
        raise exception 'config has % bytes: the limit is 65536 (64 KiB)', octet_length(run_job.config::text)
            using errcode = 'invalid_parameter_value';
    end if;
    loop
        insert into shardclock.timers (due_date, target, payload)
        values (clock_timestamp(), 'job:' || run_job.name, run_job.config)
        on conflict do nothing
        returning timers.timer_key into key;
        exit when key is not null;
        perform shardclock.advance_keys();
    end loop;
    return key;
end
$$;

-- Says why a dead letter of this target would be given up again without a call; null: it would not. A delivery to a
-- handler that no app declares waits for an app.
create function shardclock.closed_target(target text, tenant_id text)
returns text
language sql
stable
begin atomic
    select case
        when closed_target.target like 'webhook:%' and not exists (
            select from shardclock.endpoints e
            where e.tenant_id = closed_target.tenant_id and e.name = substr(closed_target.target, 9)
        ) then format(
            'target "%s" has no endpoint: add it (shardclock endpoints add), or discard its dead letters',
            left(closed_target.target, 60)
        )
        when closed_target.target like 'webhook:%' or closed_target.target like 'job:%'
            then shardclock.unknown_target(closed_target.target, closed_target.tenant_id)
    end;
end;

comment on function shardclock.closed_target is
    'Internal: Says why a target can''t be called, so that a redrive would be in vain; null: it can, or waits for an app.';

create or replace function shardclock.redrive_dead_letters(
    timer_keys bigint[],
    per_s integer default null
)
returns setof bigint
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
declare
    why_not text;
begin
    if per_s < 1 then
        raise exception 'per_s % is not possible: redrive at least 1 a second, or leave it out', per_s
            using errcode = 'invalid_parameter_value';
    end if;
    return query
    with lane as materialized (
        select d.target, d.tenant_id
        from shardclock.dead_letters d
        where d.timer_key = any (redrive_dead_letters.timer_keys)
        group by d.target, d.tenant_id
    ),
    closed as materialized (
        select l.target, l.tenant_id from lane l where shardclock.closed_target(l.target, l.tenant_id) is not null
    ),
    risen as (
        delete from shardclock.dead_letters d
        where d.timer_key = any (redrive_dead_letters.timer_keys)
            and not exists (select from closed c where c.target = d.target and c.tenant_id = d.tenant_id)
        returning d.*
    ),
    numbered as materialized (
        select
            r.*,
            now() + coalesce((row_number() over (order by r.died_at, r.timer_key) - 1)::double precision / per_s, 0)
                * interval '1 second' as begins_at
        from risen r
    ),
    recorded as (
        insert into shardclock.command_log (
            timer_key, process_instance_key, element_instance_key, due_date, created_at, occurrence, intent, tenant_id,
            timer_type, target, target_element_id, name, schedule, detail
        )
        select
            n.timer_key, n.process_instance_key, n.element_instance_key, n.due_date, n.created_at, n.occurrence,
            'REDRIVEN', n.tenant_id, n.timer_type, n.target, n.target_element_id, n.name, n.schedule,
            jsonb_build_object('by', session_user)
        from numbered n
    )
    insert into shardclock.deliveries (
        timer_key, process_instance_key, element_instance_key, next_attempt_at, due_date, created_at, fired_at,
        redriven_at, occurrence, claims, given_back, slot, tenant_id, timer_type, target, target_element_id, name,
        schedule, payload, failures
    )
    select
        n.timer_key, n.process_instance_key, n.element_instance_key, n.begins_at, n.due_date, n.created_at, n.fired_at,
        n.begins_at, n.occurrence,
        -- A claim goes on counting, so an answer to an old one never counts. The old ones count as given back: they
        -- don't say that workers die of it.
        n.claims, n.claims, n.slot, n.tenant_id, n.timer_type, n.target,
        n.target_element_id, n.name, n.schedule, n.payload, n.failures
    from numbered n
    returning deliveries.timer_key;
    if not found then
        select shardclock.closed_target(d.target, d.tenant_id) into why_not
        from shardclock.dead_letters d
        where d.timer_key = any (redrive_dead_letters.timer_keys)
        limit 1;
        if why_not is not null then
            raise exception 'nothing was redriven: %', why_not using errcode = 'object_not_in_prerequisite_state';
        end if;
    end if;
end
$$;

comment on function shardclock.redrive_dead_letters is $$Delivers dead letters again, from their first attempt on. Dead letters of an endpoint that is disabled or was removed stay dead letters.

timer_keys: the timers that fired
per_s: how many become due in a second; null: all at once
returns: the keys of those that are delivered again
errors: 22023 for a rate below 1; 55000 if all of them stay, in a sentence that says why; 42501 without a right on shardclock.deliveries
example: select shardclock.redrive_dead_letters(array(select timer_key from shardclock.dead_letters where target = 'order.expired'), per_s => 50);
$$;
