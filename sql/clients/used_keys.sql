-- Returns the given keys that belong to a pending or ended timer of any tenant.
--
-- in:    :timer_keys bigint[]
-- out:   timer_key bigint
-- locks: nothing
-- index: timers_pkey and command_log_by_timer_key, one probe for each key
select k.timer_key
from unnest(:timer_keys::bigint[]) as k (timer_key)
where shardclock.is_key_used(k.timer_key)
