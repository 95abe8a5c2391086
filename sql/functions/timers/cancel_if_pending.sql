-- Cancels the timers that are still pending or paused, and returns their keys.
--
-- A timer that has fired has no row any more, so the cancel is too late.
--
-- in:    timer_keys bigint[], reason text, of_system boolean
-- out:   setof bigint
-- locks: the timers
-- index: timers_pkey, one probe for each key
-- needs: is_of_system, log_of
create or replace function shardclock.cancel_if_pending(timer_keys bigint[], reason text, of_system boolean)
returns setof bigint
language sql
set enable_seqscan = off
begin atomic
    with gone as (
        delete from shardclock.timers t
        where t.timer_key = any (timer_keys) and shardclock.is_of_system(t.target) = of_system
        returning t as timer
    )
    select (g.timer).timer_key
    from gone g
    cross join lateral shardclock.log_of(
        g.timer,
        'CANCELED',
        coalesce((g.timer).paused_due_date, (g.timer).due_date),
        jsonb_build_object('reason', reason)
    );
end;

comment on function shardclock.cancel_if_pending is 'Internal: Cancels timers of clients, or timers of jobs and processes.';
