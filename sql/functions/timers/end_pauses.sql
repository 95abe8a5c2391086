-- Resumes timers after the end of their pauses.
--
-- A pause ends at `resume_at`, even if a shard resumes the timer later. The choice for missed occurrences applies only
-- to occurrences before `resume_at`: after a pause until 08:00, an occurrence at 08:00 fires.
--
-- `without` has the keys of timers that an earlier call could not resume. With `key`, the call resumes at most this
-- timer. `next_s` is the time until the next pause ends; null: no pause has an end.
--
-- in:    most integer, without bigint[], key bigint
-- out:   ended integer, next_s double precision
-- locks: the timers; skips locked rows
-- index: timers_by_resume; timers_pkey, one probe for each timer
-- needs: is_of_system, resume_rows
create or replace function shardclock.end_pauses(most integer, without bigint[] default '{}', key bigint default null)
returns table (ended integer, next_s double precision)
language sql
set enable_seqscan = off
-- Allow nested loops, because the caller's session may have disabled them: sql/deliveries/settle.py.
set enable_nestloop = on
set enable_hashjoin = off
set enable_mergejoin = off
begin atomic
    with due as materialized (
        select t.timer_key, t.resume_at, t.resume_missed, shardclock.is_of_system(t.target) as of_system
        from shardclock.timers t
        where t.resume_at <= now() and t.timer_key <> all (without) and (key is null or t.timer_key = key)
        order by t.resume_at
        limit most
        for update skip locked
    ),
    alike as materialized (
        select array_agg(d.timer_key) as keys, d.of_system, d.resume_missed, d.resume_at
        from due d
        group by d.of_system, d.resume_missed, d.resume_at
    )
    select
        (
            select count(*)::integer
            from alike a
            cross join lateral shardclock.resume_rows(a.keys, a.of_system, a.resume_missed, a.resume_at)
        ),
        (
            select extract(epoch from t.resume_at - now())::double precision
            from shardclock.timers t
            where t.resume_at > now()
            order by t.resume_at
            limit 1
        );
end;

comment on function shardclock.end_pauses is 'Internal: Resumes timers when their pauses end.';
