-- Finds the keys of timers that are pending or paused, in the order of the keys, one page at a time.
--
-- in:    :state text: PENDING or PAUSED, then filters, null for none: :tenant_id text,
--        :name_prefix text, :due_from timestamptz, :due_before timestamptz, :process_instance_key bigint,
--        :after_key bigint: the last key of the previous page, or 0, :page_size integer or null: all, :target text
-- out:   timer_key bigint
-- locks: nothing
-- index: timers_pkey, or the index of the filter that leaves the fewest rows
select k.timer_key
from shardclock.find_keys(
    state => :state, tenant_id => :tenant_id, name_prefix => :name_prefix, due_from => :due_from,
    due_before => :due_before, process_instance_key => :process_instance_key, after_key => :after_key,
    page_size => :page_size, target => :target
) as k (timer_key)
