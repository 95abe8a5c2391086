-- Refuses a rule that repeats too often, as timers/repeat.py does. Ten thousand timers that repeat every millisecond
-- would use the whole capacity of a cluster.
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
    'Internal: Refuses a period of less than a second in a repeat that has no end or a high count; null: the period is accepted.';
