-- Returns whether a shard may claim a row. The planner inlines the body.
--
-- in:    claimed_by bigint, claimed_until timestamptz, at timestamptz, lease interval, ended_holders bigint[]
-- out:   boolean
-- locks: nothing
-- index: none
create or replace function shardclock.is_free(
    claimed_by bigint, claimed_until timestamptz, at timestamptz, lease interval, ended_holders bigint[]
)
returns boolean
language sql
stable
begin atomic
    -- A lease that ends more than two lease durations from now was written before the clock was set back.
    select (
        claimed_until > at and claimed_until <= at + 2 * lease and claimed_by <> all (ended_holders)
    ) is not true;
end;

comment on function shardclock.is_free is
    'Internal: Returns whether a timer is not leased, its lease has ended, or its holder has ended or is suspended.';
