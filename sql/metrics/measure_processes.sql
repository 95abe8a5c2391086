-- Measures what drives processes, and what waits for it, in one row.
--
-- in:    :most bigint: each count stops here, :now timestamptz or null
-- out:   engines_wanted integer (0: no process was ever deployed), engines_alive bigint, signals_waiting bigint (due, and
--        taken by no engine yet; one that was put off has been due since its due_date), oldest_signal_s double precision
--        (how long the oldest of them has been due; 0 if there is none), incidents bigint (open; a start that was given up
--        is one)
-- locks: nothing
-- index: deliveries_of_processes and deliveries_put_off, each in its order, :most rows at most; incidents and
--        dead_letters_of_starts, as many of each; dead_letters_of_throws, all
with at as materialized (
    select coalesce(:now::timestamptz, now()) as now
),
due as materialized (
    select d.timer_key, d.failed_attempts, d.due_date, d.next_attempt_at
    from at
    cross join lateral (
        select d.timer_key, d.failed_attempts, d.due_date, d.next_attempt_at
        from shardclock.deliveries d
        where d.target = 'process:instance' and d.next_attempt_at <= at.now
        order by d.next_attempt_at, d.timer_key
        limit :most::bigint
    ) d
),
put_off as materialized (
    select d.timer_key, d.failed_attempts, d.due_date, d.next_attempt_at
    from at
    cross join lateral (
        select d.timer_key, d.failed_attempts, d.due_date, d.next_attempt_at
        from shardclock.deliveries d
        where (d.target = 'process:instance' and d.failed_attempts > 0) is true
        order by coalesce(d.process_instance_key, d.timer_key)
        limit :most
    ) d
    where d.due_date <= at.now
),
waiting as materialized (
    select w.timer_key, case when w.failed_attempts > 0 then w.due_date else w.next_attempt_at end as since
    from (select due.* from due union select put_off.* from put_off) w
),
throws as materialized (
    -- A signal to many that was given up is no start.
    select count(*) as given_up
    from shardclock.dead_letters l
    where (l.target = 'process:instance' and l.payload ->> 'kind' = 'thrown') is true
)
select
    case when exists (select from shardclock.definitions) then s.wanted else 0 end as engines_wanted,
    (
        select count(*) from shardclock.presence h
        where h.role = 'engine' and h.part is not null and h.alive
    ) as engines_alive,
    least((select count(*) from waiting), :most) as signals_waiting,
    greatest(extract(epoch from at.now - (select min(w.since) from waiting w)), 0)::double precision as oldest_signal_s,
    least(
        (select count(*) from (select from shardclock.incidents limit :most) n)
            + (
                select count(*)
                from (
                    select
                    from shardclock.dead_letters l
                    where (l.target = 'process:instance' and l.process_instance_key is null) is true
                    limit :most + (select t.given_up from throws t)
                ) l
            )
            - (select t.given_up from throws t),
        :most
    ) as incidents
from at
cross join shardclock.scale s
where s.role = 'engine'
