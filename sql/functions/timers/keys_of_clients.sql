-- Removes the keys of timers of jobs and processes from a list of keys.
--
-- in:    timer_keys bigint[]
-- out:   bigint[]
-- locks: nothing
-- index: timers_pkey, one probe for each key
-- needs: is_of_system
create or replace function shardclock.keys_of_clients(timer_keys bigint[])
returns bigint[]
language sql
stable
set enable_seqscan = off
begin atomic
    select array(
        select k.timer_key
        from unnest(timer_keys) as k (timer_key)
        -- A subquery for each key instead of a join, because a join would read the whole table with a plan that was
        -- made for an empty table.
        where (
            select shardclock.is_of_system(t.target) from shardclock.timers t where t.timer_key = k.timer_key
        ) is not true
    );
end;

comment on function shardclock.keys_of_clients is
    'Internal: Returns the keys without the keys of timers of jobs and processes.';
