-- Returns the next start of a job with an interval: one interval after its last run ended, or now if this time has
-- passed.
--
-- in:    every_s double precision, last_finish timestamptz
-- out:   timestamptz
-- locks: nothing
-- index: none
create or replace function shardclock.next_start(every_s double precision, last_finish timestamptz)
returns timestamptz
language sql
stable
begin atomic
    select greatest(now(), last_finish + every_s * interval '1 second');
end;

comment on function shardclock.next_start is
    'Internal: Returns the next start of a job with an interval: one interval after the end of its last run, or now if this time has passed.';
