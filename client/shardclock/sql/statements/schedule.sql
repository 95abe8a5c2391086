-- Schedules a timer; if a pending timer has its name, on_conflict decides.
--
-- in:    :asked text, a JSON object of the given arguments; the zone of a local date is the field clock
-- out:   answer text, a JSON object of timer_key, due_date and outcome
-- locks: the row of the replaced timer
-- index: timers_by_name_prefix
select json_build_object(
    'timer_key', e.timer_key,
    'due_date', (to_json(e.due_date at time zone 'UTC') #>> '{}') || 'Z',
    'outcome', e.outcome
)::text as answer
from (select cast(:asked as text)::jsonb as asked) a
cross join lateral shardclock.ensure_timer(
    due_date => case
        when a.asked ->> 'local_due_date' is null then (a.asked ->> 'due_date')::timestamptz
        else shardclock.to_utc(
            (a.asked ->> 'local_due_date')::timestamp, shardclock.check_zone(a.asked ->> 'clock')
        )
    end,
    delay => a.asked ->> 'delay',
    schedule => a.asked ->> 'schedule',
    name => a.asked ->> 'name',
    tenant_id => a.asked ->> 'tenant_id',
    payload => a.asked -> 'payload',
    target => coalesce(a.asked ->> 'target', 'log'),
    timer_type => coalesce(a.asked ->> 'timer_type', 'USER'),
    target_element_id => a.asked ->> 'target_element_id',
    process_instance_key => (a.asked ->> 'process_instance_key')::bigint,
    element_instance_key => (a.asked ->> 'element_instance_key')::bigint,
    zone => coalesce(a.asked ->> 'zone', 'UTC'),
    missed => coalesce(a.asked ->> 'missed', 'fire_once'),
    on_conflict => coalesce(a.asked ->> 'on_conflict', 'refuse')
) e
