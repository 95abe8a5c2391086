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
If the transaction is rolled back, there is no timer.

due_date: the due date; a past date is due immediately. Give exactly one of due_date, delay and schedule
delay: an ISO 8601 duration from now, such as PT15M or P3DT12H; months and days are counted on the zone's calendar
schedule: an ISO 8601 repeat such as R/PT1H or R5/P1D, or cron of five or six fields; more in when.md
name: unique among the tenant's pending timers; a schedule without one is named `schedule-<its first key>`
tenant_id: the tenant of the timer
payload: any JSON of at most 64 KiB; it is copied into the timer's records
target: the target that the firing calls: a handler that an app has declared, or `webhook:NAME`, an endpoint of the tenant; log: the firing calls nothing, and only writes its record
timer_type: BOUNDARY, INTERMEDIATE, START_EVENT or USER
target_element_id: the element of a process for which the timer is scheduled
process_instance_key: the process instance of the timer; cancel_process_instance cancels all timers of an instance
element_instance_key: the element instance of the timer
zone: the IANA time zone of delays and schedules
missed: the rule for missed occurrences of a schedule: fire_once (one firing for all), fire_all or skip
on_conflict: the rule for a name that is taken: refuse (an error), ignore (the pending timer stays), or replace (the pending timer is cancelled, unless it is the same as the new timer)
returns: the timer_key; with ignore or replace, the key of the timer that has the name now
errors: 22023 for a wrong argument, in a sentence that names the argument; 23505 for a name that is taken, with refuse
example: select shardclock.schedule_timer(delay => 'PT15M', name => 'cart-7', payload => '{"cart": 7}', on_conflict => 'replace');
$$;
