-- Reads the pending and ended timers with the given keys, and whether each timer is the one that the caller sent.
--
-- in:    :timer_keys bigint[]
--        :drawn_at timestamptz: the moment when the keys were drawn, which is the created_at of the caller's timers.
--          After the sequence of keys was set back, a key may be drawn a second time, for another timer; that timer has
--          another created_at (docs/decisions/0032-key-and-moment.md)
-- out:   one row for each key:
--        timer_key bigint, due_date timestamptz
--        ours boolean: the timer is the caller's
--        replaced boolean: the timer replaced a timer of the same name
-- locks: nothing
-- index: timers_pkey, command_log_by_timer_key, command_log_by_name from drawn_at on
select distinct on (k.timer_key)
    k.timer_key, k.due_date, k.created_at = :drawn_at as ours,
    exists (
        select from shardclock.command_log l
        where l.tenant_id = k.tenant_id
            and l.name = k.name
            and l.recorded_at >= :drawn_at
            and l.intent = 'CANCELED'
            and l.detail ->> 'replaced_by' = k.timer_key::text
    ) as replaced
from (
    select
        t.timer_key, coalesce(t.paused_due_date, t.due_date) as due_date, t.created_at, t.tenant_id, t.name, 1 as rank
    from shardclock.timers t
    where t.timer_key = any (:timer_keys)
    union all
    select
        l.timer_key, l.due_date, l.created_at, l.tenant_id, l.name,
        -- Only the record of a timer's end has the timer's last due date. Other records prove only that a timer had the
        -- key.
        case
            when l.intent in ('TRIGGERED', 'CANCELED') or (l.intent = 'SKIPPED' and l.detail ->> 'policy' = 'skip')
                then 2
            else 3
        end as rank
    from shardclock.command_log l
    where l.timer_key = any (:timer_keys)
) k
order by k.timer_key, k.created_at = :drawn_at desc, k.rank
