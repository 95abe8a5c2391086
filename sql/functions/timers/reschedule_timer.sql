-- Moves one timer to another due date, or gives it another rule.
--
-- in:    timer_key bigint, name text, tenant_id text, due_date timestamptz, delay text, shift text, schedule text, zone
--        text, missed text
-- out:   text
-- locks: the timer
-- index: timers_pkey or timers_by_name_prefix
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
        raise exception 'give exactly one of %, not %', 'due_date, delay, shift and schedule',
            num_nonnulls(due_date, delay, shift, schedule)
            using errcode = 'invalid_parameter_value', constraint = 'needs_one_moment';
    end if;
    if schedule is null and num_nonnulls(zone, missed) > 0 then
        raise exception '% goes with a schedule; leave it out', case when zone is null then 'missed' else 'zone' end
            using errcode = 'invalid_parameter_value',
                constraint = 'invalid_' || case when zone is null then 'missed' else 'zone' end;
    end if;
    if missed is not null and missed not in ('fire_once', 'fire_all', 'skip') then
        raise exception 'missed % is unknown: use fire_once, fire_all or skip', quote_literal(left(missed, 60))
            using errcode = 'invalid_parameter_value', constraint = 'invalid_missed';
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
            raise exception 'timer % has no date yet: a running cluster plans its schedule, unless it is paused; try again '
                'later', key
                using errcode = 'object_not_in_prerequisite_state', constraint = 'timer_unplanned';
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
shift: an ISO 8601 duration from the current due date, with a minus sign to move backwards
schedule: a new rule; a plain timer becomes a schedule
zone: with schedule: the IANA time zone of the rule; null: the zone does not change
missed: with schedule: the policy for missed occurrences; null: the policy does not change
returns: RESCHEDULED, or how the timer ended: TRIGGERED (too late: it has fired), CANCELED, SKIPPED or UNKNOWN
errors: 22023 for a wrong argument; 55000 for a schedule that has no date yet: a running cluster computes the date within a tenth of a second
example: select shardclock.reschedule_timer(name => 'cart-7', delay => 'PT15M');
$$;
