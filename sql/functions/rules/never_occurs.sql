-- Returns the refusal of a rule that never occurs, such as a cron rule for 30 February.
--
-- in:    given text
-- out:   text
-- locks: nothing
-- index: none
-- needs: shown
create or replace function shardclock.never_occurs(given text)
returns text
language sql
stable
begin atomic
    select format(
        '%s never occurs after %sZ; choose one with a date in the calendar, before its end and the year 10000',
        shardclock.shown(given),
        rtrim(rtrim(to_char(now() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US'), '0'), '.')
    );
end;

comment on function shardclock.never_occurs is 'Internal: Returns the refusal of a rule that never occurs.';
