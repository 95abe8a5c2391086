-- Finds timers by a filter, a page at a time.
--
-- in:    $1 state text: PENDING, PAUSED, TRIGGERED, CANCELED, SKIPPED or ENDED, then what narrows it down, or nulls:
--        $2 tenant_id text, $3 name_prefix text (with a tenant), $4 due_from timestamptz, $5 due_before timestamptz,
--        $6 process_instance_key bigint, $7 page text: that of the last row of the page before, $8 page_size integer
-- out:   timer_key bigint, state text, tenant_id text, name text, timer_type text, process_instance_key bigint,
--        element_instance_key bigint, target_element_id text, due_date timestamptz, created_at timestamptz,
--        schedule text, zone text, missed text, occurrence bigint, target text, payload text, ended_at timestamptz,
--        holder bigint, detail text, page text; pending soonest first, paused by key, ended ones newest first
-- locks: nothing
-- index: timers_by_tenant, timers_by_name_prefix, timers_by_process_instance or timers_by_slot; command_log_in_order
select
    f.timer_key, f.state, f.tenant_id, f.name, f.timer_type, f.process_instance_key, f.element_instance_key,
    f.target_element_id, f.due_date, f.created_at, f.schedule, f.zone, f.missed, f.occurrence, f.target,
    f.payload::text as payload, f.ended_at, f.holder, f.detail::text as detail, f.page
from shardclock.find_timers(
    state => $1, tenant_id => $2, name_prefix => $3, due_from => $4, due_before => $5, process_instance_key => $6,
    page => $7, page_size => $8
) f
