-- Finds the keys of timers that are pending or paused, in the keys' order, a page at a time.
--
-- in:    $1 state text: PENDING or PAUSED, then what narrows it down, or nulls: $2 tenant_id text,
--        $3 name_prefix text, $4 due_from timestamptz, $5 due_before timestamptz, $6 process_instance_key bigint,
--        $7 after_key bigint: the last of the page before, or 0, $8 page_size integer or null: all
-- out:   timer_key bigint
-- locks: nothing
-- index: timers_pkey, or whichever narrows most
select k.timer_key
from shardclock.find_keys(
    state => $1, tenant_id => $2, name_prefix => $3, due_from => $4, due_before => $5, process_instance_key => $6,
    after_key => $7, page_size => $8
) as k (timer_key)
