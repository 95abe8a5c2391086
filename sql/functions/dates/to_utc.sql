-- Returns the moment of a local time, as timers.zone.to_utc does. A local time that the zone's clock skips is moved
-- forward by the skipped length. For a local time that occurs twice, the function returns the earlier moment.
--
-- in:    local timestamp, zone text
-- out:   timestamptz
-- locks: nothing
-- index: none
-- needs: clock_of
create or replace function shardclock.to_utc(local timestamp, zone text)
returns timestamptz
language sql
immutable
begin atomic
    select case
        when zone = 'UTC' then local at time zone 'UTC'
        else (
            with clock as (
                -- No zone is more than 15 hours from UTC. So these two moments are before and after any clock change
                -- near the local time.
                select
                    local - (shardclock.clock_of(t.before, zone) - (t.before at time zone 'UTC')) as by_offset_before,
                    local - (shardclock.clock_of(t.after, zone) - (t.after at time zone 'UTC')) as by_offset_after
                from (
                    select
                        (local - interval '26 hours') at time zone 'UTC' as before,
                        (local + interval '26 hours') at time zone 'UTC' as after
                ) t
            )
            select coalesce(
                (
                    select min(c.moment)
                    from clock
                    cross join lateral (
                        values (by_offset_before at time zone 'UTC'), (by_offset_after at time zone 'UTC')
                    ) as c (moment)
                    where shardclock.clock_of(c.moment, zone) = local
                ),
                (select by_offset_before at time zone 'UTC' from clock)
            )
        )
    end;
end;
