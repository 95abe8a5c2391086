-- Measures what drives processes, and what waits for it, in one row.
--
-- in:    :most bigint: each count stops here, :now timestamptz or null
-- out:   engines_wanted integer (0: no process was ever deployed), engines_alive bigint, signals_waiting bigint (due, and
--        taken by no engine yet; or put off, because no engine could take them), oldest_signal_s double precision (how long
--        the oldest of them has been due, from its first try on; 0 if there is none), incidents bigint (open)
-- locks: nothing
-- index: deliveries_of_processes, in its order, :most rows at most; deliveries_put_off and incidents, as many of each
with at as materialized (
    select coalesce(:now::timestamptz, now()) as now
),
waiting as materialized (
    select d.next_attempt_at as since
    from at
    cross join lateral (
        select d.next_attempt_at, d.failed_attempts
        from shardclock.deliveries d
        where d.target = 'process:instance' and d.next_attempt_at <= at.now
        order by d.next_attempt_at, d.timer_key
        limit :most::bigint
    ) d
    where d.failed_attempts = 0
    union all
    -- Else nobody saw what is put off for days, because its next try is never long overdue.
    (
        select coalesce(d.redriven_at, d.fired_at)
        from shardclock.deliveries d
        where d.target = 'process:instance' and d.failed_attempts > 0
        limit :most
    )
)
select
    case when exists (select from shardclock.definitions) then s.wanted else 0 end as engines_wanted,
    (
        select count(*) from shardclock.presence h
        where h.role = 'engine' and h.part is not null and h.alive
    ) as engines_alive,
    (select least(count(*), :most) from waiting) as signals_waiting,
    greatest(extract(epoch from at.now - (select min(w.since) from waiting w)), 0)::double precision
        as oldest_signal_s,
    (select count(*) from (select from shardclock.incidents limit :most) n) as incidents
from at
cross join shardclock.scale s
where s.role = 'engine'
