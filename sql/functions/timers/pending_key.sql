-- Returns the key of the pending or paused timer with a given key or name; null: no timer has it.
--
-- The occurrences of a schedule are different timers with the same name.
--
-- in:    timer_key bigint, name text, tenant_id text
-- out:   bigint
-- locks: nothing
-- index: timers_by_name_prefix
create or replace function shardclock.pending_key(timer_key bigint, name text, tenant_id text)
returns bigint
language sql
volatile
set enable_seqscan = off
begin atomic
    select t.timer_key
    from shardclock.timers t
    where t.timer_key = pending_key.timer_key or (t.tenant_id = pending_key.tenant_id and t.name = pending_key.name);
end;
