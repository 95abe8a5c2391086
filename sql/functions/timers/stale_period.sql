-- Refuses a changed row that has a new rule and the old period.
--
-- A claim reads only the period, so the next due date would follow the old rule.
--
-- in:    wanted shardclock.timers, before shardclock.timers
-- out:   text[]: the code, and the sentence
-- locks: nothing
-- index: none
create or replace function shardclock.stale_period(wanted shardclock.timers, before shardclock.timers)
returns text[]
language sql
immutable
begin atomic
    select case
        when wanted.period_us = before.period_us
            and (wanted.schedule <> before.schedule or wanted.zone is distinct from before.zone)
            then array[
                'invalid_period_us',
                format(
                    'period_us %s belongs to the previous rule: set it to null, or call shardclock.reschedule_timer',
                    wanted.period_us
                )
            ]
    end;
end;

comment on function shardclock.stale_period is
    'Internal: Refuses a timer that has a new rule and the period of the former rule; null: the timer is accepted.';
