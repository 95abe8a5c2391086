-- Measures engines, their waiting signals and open incidents, in one row.
--
-- in:    :most bigint: each count stops at this number
--        :now timestamptz or null
-- out:   engines_wanted integer: 0 if no process was ever deployed
--        engines_alive bigint
--        signals_waiting bigint: due signals that no engine has processed; a deferred signal counts from its due_date
--          on
--        oldest_signal_s double precision: the time since the oldest waiting signal became due; 0: no signal waits
--        incidents bigint: open incidents; a start that was given up counts as an incident
-- locks: nothing
-- index: deliveries_of_processes and deliveries_deferred, each in its order, at most :most rows; incidents and
--        dead_letters_of_starts, at most :most rows each; dead_letters_of_throws, all rows
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
deferred as materialized (
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
    from (select due.* from due union select deferred.* from deferred) w
),
throws as materialized (
    -- Dead letters of thrown signals are not starts, so they don't count.
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
