-- Pauses many timers of clients, until a resume or until a moment.
--
-- in:    timer_keys bigint[], reason text, until timestamptz, missed text
-- out:   setof bigint
-- locks: the timers
-- index: timers_pkey, one probe for each key
-- needs: checked_text, end_of_pause, missed_choice, pause_rows
create or replace function shardclock.pause_timers(
    timer_keys bigint[],
    reason text default null,
    until timestamptz default null,
    missed text default 'policy'
)
returns setof bigint
language sql
begin atomic
    select p.timer_key
    from shardclock.pause_rows(
        timer_keys, shardclock.checked_text('reason', reason), false, shardclock.end_of_pause(until, missed => missed),
        shardclock.missed_choice(missed)
    ) as p (timer_key);
end;

comment on function shardclock.pause_timers is $$Pauses the given timers until they are resumed, or until a moment. Timers that are paused already get the new end of the pause. Timers of jobs and processes stay unchanged.

as: pause_timer
timer_keys: the timers' keys, for example from find_timers; timers that have ended are ignored
returns: the keys of the paused timers, without timers that had the same pause already
errors: 22023 for an end that is not in the future, for an unknown choice, and for a reason of more than 1,000 characters
example: select shardclock.pause_timers(array(select timer_key from shardclock.find_timers(tenant_id => 'acme')), 'month-end close');
$$;
