-- Returns a zone's local time at a moment.
--
-- `at time zone` first reads a name as an abbreviation, so CET would be one hour from UTC even in summer. An
-- abbreviation never contains a slash. A name without a slash may be an abbreviation. For such a name, the function
-- calls named_clock, which takes a few microseconds longer.
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
