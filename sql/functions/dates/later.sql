-- Adds months and days on the zone's clock, then the rest as elapsed time, as timers.duration.later does.
--
-- in:    moment timestamptz, length interval, zone text
-- out:   timestamptz
-- locks: nothing
-- index: none
-- needs: clock_of, to_utc
create or replace function shardclock.later(moment timestamptz, length interval, zone text)
returns timestamptz
language sql
immutable
begin atomic
    select case
        when coalesce(zone, 'UTC') = 'UTC' then (moment at time zone 'UTC' + length) at time zone 'UTC'
        when c.calendar = interval '0' then moment + length
        else shardclock.to_utc(shardclock.clock_of(moment, zone) + c.calendar, zone) + (length - c.calendar)
    end
    from (
        select make_interval(
            years => extract(year from length)::integer,
            months => extract(month from length)::integer,
            days => extract(day from length)::integer
        ) as calendar
    ) c;
end;
