-- Selects the rows to claim: the oldest rows of each slot.
select n.timer_key, n.due_date, n.slot as place, n.share
from seen n
where n.slot <> all (array(select o.slot from seen o where o.touched))
union all
(
    -- Exclude rows that other transactions have locked. Read only the slots that may have locked rows. In a sweep,
    -- these are all slots, because other shards claim rows there.
    select d.timer_key, d.due_date, s.slot as place, s.share
    from slots s
    cross join lateral (
        select t.timer_key, t.due_date
        from shardclock.timers t
        -- include: included/free_and_due.sql
        order by t.due_date
        limit s.share
        for update of t skip locked
    ) d
    where (select scan.is_sweep from scan) or s.slot = any (array(select o.slot from seen o where o.touched))
    limit (select scan.timers from scan)
)
