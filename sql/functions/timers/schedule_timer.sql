-- Schedules one timer in the caller's transaction, and returns its key.
--
-- in:    due_date timestamptz, delay text, schedule text, name text, tenant_id text, payload jsonb, target text,
--        timer_type text, target_element_id text, process_instance_key bigint, element_instance_key bigint, zone text,
--        missed text, on_conflict text
-- out:   bigint
-- locks: the new row; a timer that it replaces
-- index: timers_pkey, timers_by_name_prefix
create or replace function shardclock.schedule_timer(
    due_date timestamptz default null,
    delay text default null,
    schedule text default null,
    name text default null,
    tenant_id text default 'default',
    payload jsonb default null,
    target text default 'log',
    timer_type text default 'USER',
    target_element_id text default null,
    process_instance_key bigint default null,
    element_instance_key bigint default null,
    zone text default 'UTC',
    missed text default 'fire_once',
    on_conflict text default 'refuse'
)
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
begin
    return (shardclock.write_timer(
        shardclock.new_timer(
            due_date, delay, schedule, name, tenant_id, payload, target, timer_type, target_element_id,
            process_instance_key, element_instance_key, zone, missed
        ),
        on_conflict, redraws => true
    )).timer_key;
end
$$;

comment on function shardclock.schedule_timer is $$Schedules one timer in the caller's transaction, and returns its key.
If the caller rolls the transaction back, the timer does not exist.

due_date: the due date; a past date is due immediately. Give exactly one of due_date, delay and schedule
delay: an ISO 8601 duration from now, such as PT15M or P3DT12H; months and days are counted on the zone's calendar
schedule: an ISO 8601 repeat such as R/PT1H or R5/P1D, or cron of five or six fields such as 0 8 * * MON
name: unique among the tenant's pending timers; a schedule without a name gets the name `schedule-<its first key>`
tenant_id: the tenant of the timer
payload: any JSON of at most 64 KiB; it is copied into the timer's log records
target: a handler that an app has declared, or `webhook:NAME`, an endpoint of the tenant: a worker calls it when the timer fires; log: the firing only writes a log record
timer_type: BOUNDARY, INTERMEDIATE, START_EVENT or USER
target_element_id: the element of a process for which the timer is scheduled
process_instance_key: the process instance of the timer; cancel_process_instance cancels all timers of an instance
element_instance_key: the element instance of the timer
zone: the IANA time zone of delays and schedules
missed: the rule for missed occurrences of a schedule: fire_once (one firing for all), fire_all or skip
on_conflict: the rule if a pending timer has the name: refuse (an error), ignore (the pending timer does not change), or replace (the pending timer is cancelled, unless it equals the new timer)
returns: the timer_key; with ignore or replace, the key of the timer that now has the name
errors: 22023 for a wrong argument, with a message that names the argument; 23505 with refuse, if a pending timer has the name
example: select shardclock.schedule_timer(delay => 'PT15M', name => 'cart-7', payload => '{"cart": 7}', on_conflict => 'replace');
$$;
