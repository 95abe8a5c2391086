-- Finds timers by filters, one page at a time.
--
-- in:    :state text: PENDING, PAUSED, TRIGGERED, CANCELED, SKIPPED or ENDED
--        then filters, null for none:
--        :tenant_id text
--        :name_prefix text: with a tenant
--        :due_from timestamptz, :due_before timestamptz, :process_instance_key bigint
--        :page text: the value of page in the last row of the previous result
--        :page_size integer
--        :name text: with a tenant
--        :target text, :only_schedules boolean, :changed_from timestamptz, :changed_before timestamptz
--        :order_by text: due or change
--        :bytes bigint or null: the page ends once its payloads have this size
-- out:   timer_key bigint, state text, tenant_id text, name text, timer_type text, process_instance_key bigint,
--          element_instance_key bigint, target_element_id text, due_date timestamptz, created_at timestamptz,
--          changed_at timestamptz, resume_at timestamptz, schedule text, zone text, missed text, occurrence bigint,
--          target text, payload text, ended_at timestamptz, holder bigint, detail text, page text
--        pending timers soonest first, paused timers by key, ended newest first
-- locks: nothing
-- index: timers_by_tenant, timers_by_name_prefix, timers_by_process_instance, timers_by_target, timers_by_change,
--        schedules_by_tenant or timers_by_slot; command_log_in_order
select
    f.timer_key, f.state, f.tenant_id, f.name, f.timer_type, f.process_instance_key, f.element_instance_key,
    f.target_element_id, f.due_date, f.created_at, f.changed_at, f.resume_at, f.schedule, f.zone, f.missed, f.occurrence,
    f.target, f.payload::text as payload, f.ended_at, f.holder, f.detail::text as detail, f.page
from (
    select
        t.*,
        sum(case when :bytes::bigint is null then 0 else octet_length(t.payload::text) end) over (
            order by t.ordinality rows between unbounded preceding and 1 preceding
        ) as bytes_before
    from shardclock.find_timers(
        state => :state, tenant_id => :tenant_id, name_prefix => :name_prefix, due_from => :due_from,
        due_before => :due_before, process_instance_key => :process_instance_key, page => :page,
        page_size => :page_size, name => :name, target => :target, only_schedules => :only_schedules,
        changed_from => :changed_from, changed_before => :changed_before, order_by => :order_by
    ) with ordinality t
) f
where :bytes::bigint is null or coalesce(f.bytes_before, 0) < :bytes
order by f.ordinality
