-- As timers/repeat.py: ten thousand repeats of a millisecond would take up all that a cluster can fire.
--
-- in:    given text, count text, period_s numeric
-- out:   text
-- locks: nothing
-- index: none
-- needs: shown
create or replace function shardclock.frequency_refusal(given text, count text, period_s numeric)
returns text
language sql
immutable
begin atomic
    select shardclock.shown(given)
        || ' repeats more often than once a second; write a period of PT1S or longer, or a count of at most 10'
    where period_s < 1 and coalesce(nullif(count, '')::numeric, -1) not between 0 and 10;
end;

comment on function shardclock.frequency_refusal is
    'Internal: Says that a repeat without end, or with a high count, has a period of less than a second; null: it has not.';
