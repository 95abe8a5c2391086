-- Cancels, pauses, resumes, runs or moves a timer of the tenant.
--
-- in:    :asked text, a JSON object of verb, tenant_id, timer_key or name, and the verb's own arguments
-- out:   answer text, a JSON object of state: the timer's state, or UNKNOWN if the tenant has no timer with this key or
--        name
-- locks: the timer's row
-- index: timers_pkey or timers_by_name_prefix, command_log_by_timer_key
select json_build_object('state', case
    -- The functions accept a key of any tenant, so this statement checks the tenant of the key.
    when a.timer_key is not null
        and not exists (select from shardclock.timers t where t.timer_key = a.timer_key and t.tenant_id = a.tenant_id)
        and not exists (
            select from shardclock.command_log l where l.timer_key = a.timer_key and l.tenant_id = a.tenant_id
        )
        then 'UNKNOWN'
    when a.verb = 'cancel'
        then shardclock.cancel_timer(a.timer_key, a.name, a.tenant_id, reason => a.asked ->> 'reason')
    when a.verb = 'pause'
        then shardclock.pause_timer(
            a.timer_key,
            a.name,
            a.tenant_id,
            reason => a.asked ->> 'reason',
            until => shardclock.end_of_pause((a.asked ->> 'until')::timestamptz, a.asked ->> 'delay', a.missed),
            missed => a.missed
        )
    when a.verb = 'resume'
        then shardclock.resume_timer(a.timer_key, a.name, a.tenant_id, missed => a.missed)
    when a.verb = 'run'
        then shardclock.run_timer(a.timer_key, a.name, a.tenant_id, operation => a.asked ->> 'operation')
    when a.verb = 'move'
        then shardclock.reschedule_timer(
            a.timer_key,
            a.name,
            a.tenant_id,
            due_date => case
                when a.asked ->> 'local_due_date' is null then (a.asked ->> 'due_date')::timestamptz
                else shardclock.to_utc(
                    (a.asked ->> 'local_due_date')::timestamp, shardclock.check_zone(a.asked ->> 'clock')
                )
            end,
            delay => a.asked ->> 'delay',
            shift => a.asked ->> 'shift',
            schedule => a.asked ->> 'schedule',
            zone => a.asked ->> 'zone',
            missed => a.asked ->> 'missed'
        )
end)::text as answer
from (
    select
        j.asked,
        j.asked ->> 'verb' as verb,
        (j.asked ->> 'timer_key')::bigint as timer_key,
        j.asked ->> 'name' as name,
        j.asked ->> 'tenant_id' as tenant_id,
        coalesce(j.asked ->> 'missed', 'policy') as missed
    from (select cast(:asked as text)::jsonb as asked) j
) a
