-- Returns a zone's local time at a moment.
--
-- `at time zone` reads a name first as an abbreviation: CET would mean one hour from UTC even in summer. An
-- abbreviation contains no slash. For a name without a slash, the function calls named_clock, which is a few
-- microseconds slower.
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
