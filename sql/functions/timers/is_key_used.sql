-- Returns whether a pending or ended timer of any tenant has this key.
--
-- in:    timer_key bigint
-- out:   boolean
-- locks: nothing
-- index: timers_pkey, command_log_by_timer_key
create or replace function shardclock.is_key_used(timer_key bigint)
returns boolean
language sql
volatile -- a new snapshot: the caller has just waited for another transaction's commit.
security definer
set enable_seqscan = off
begin atomic
    select exists (select from shardclock.timers t where t.timer_key = is_key_used.timer_key)
        or exists (select from shardclock.command_log l where l.timer_key = is_key_used.timer_key);
end;

comment on function shardclock.is_key_used is
    'Internal: Returns whether a pending or ended timer of any tenant has this key.';
