-- Returns a zone's local time at a moment.
--
-- For a name without a slash, the function calls named_clock, because the name can also be an abbreviation. For
-- example, `at time zone` reads CET as the abbreviation, which is one hour from UTC even in summer. named_clock takes a
-- few microseconds more.
--
-- in:    moment timestamptz, zone text
-- out:   timestamp
-- locks: nothing
-- index: none
-- needs: named_clock
create or replace function shardclock.clock_of(moment timestamptz, zone text)
returns timestamp
language sql
immutable
begin atomic
    select case
        when zone = 'UTC' or position('/' in zone) > 0 then moment at time zone zone
        else shardclock.named_clock(moment, zone)
    end;
end;
