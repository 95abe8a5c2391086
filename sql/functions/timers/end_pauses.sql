-- Resumes the timers with an ended pause.
--
-- A pause ends as of `resume_at`, and not as of the later moment at which a shard finds it. The choice for missed
-- occurrences covers the occurrences before `resume_at`. After a pause until 08:00, the first occurrence may be at 08:00.
-- Rows that others have locked are left for the next call. `next_s` is the time until the next pause ends; null: no
-- pause has an end.
--
-- in:    most integer
-- out:   ended integer, next_s double precision
-- locks: the timers; skips locked rows
-- index: timers_by_resume; timers_pkey, one probe for each timer
-- needs: log_of
create or replace function shardclock.end_pauses(most integer)
returns table (ended integer, next_s double precision)
language sql
set enable_seqscan = off
-- The caller's session may have turned off nested loops: sql/deliveries/settle.py.
set enable_nestloop = on
set enable_hashjoin = off
set enable_mergejoin = off
begin atomic
    with due as materialized (
        select t.timer_key, t.resume_at, t.resume_missed
        from shardclock.timers t
        where t.resume_at <= now()
        order by t.resume_at
        limit most
        for update skip locked
    ),
    resumed as (
        update shardclock.timers t
        set due_date = t.paused_due_date,
            paused_due_date = null,
            resume_at = null,
            resume_missed = null,
            changed_at = d.resume_at,
            -- As in resume_rows: a choice without an effect is not stored, and a row with a choice has no period.
            missed_once = case
                when t.schedule is not null and (t.paused_due_date < d.resume_at or t.anchor_occurrence is null)
                    then d.resume_missed
            end,
            period_us = case when d.resume_missed is null then t.period_us end
        from due d
        where t.timer_key = d.timer_key and t.resume_at = d.resume_at
        returning t as timer, d.resume_at, d.resume_missed
    )
    select
        (
            select count(*)::integer
            from resumed r
            cross join lateral shardclock.log_of(
                r.timer, 'RESUMED', (r.timer).due_date,
                jsonb_build_object('missed', r.resume_missed, 'until', r.resume_at)
            )
        ),
        (
            select extract(epoch from t.resume_at - now())::double precision
            from shardclock.timers t
            where t.resume_at > now()
            order by t.resume_at
            limit 1
        );
end;

comment on function shardclock.end_pauses is 'Internal: Resumes paused timers at the ends of their pauses.';
