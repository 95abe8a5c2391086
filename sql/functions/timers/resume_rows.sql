-- in:    timer_keys bigint[], of_system boolean
-- out:   setof bigint
-- locks: the timers
-- index: timers_pkey, one probe for each key
-- needs: is_of_system, log_of
create or replace function shardclock.resume_rows(timer_keys bigint[], of_system boolean)
returns setof bigint
language sql
set enable_seqscan = off
begin atomic
    with resumed as (
        update shardclock.timers t
        set due_date = t.paused_due_date, paused_due_date = null, changed_at = clock_timestamp()
        where t.timer_key = any (timer_keys)
            and t.paused_due_date is not null
            and shardclock.is_of_system(t.target) = of_system
        returning t as timer
    )
    select (r.timer).timer_key
    from resumed r
    cross join lateral shardclock.log_of(r.timer, 'RESUMED', (r.timer).due_date, '{}');
end;

comment on function shardclock.resume_rows is
    'Internal: Resumes timers: those of clients, or those of jobs and processes.';
