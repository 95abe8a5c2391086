-- Finds records of one timer, or of all timers with one name, newest first.
--
-- in:    :timer_key bigint or null, :name text or null
--        :tenant_id text
--        then filters, null for none:
--        :intent text, :target text, :process_instance_key bigint, :since timestamptz, :before timestamptz
--        the last record of the previous page, nulls for the first page:
--        :after_at timestamptz, :after bigint, :page_size integer
-- out:   the columns of records_at, without payloads
-- locks: nothing
-- index: command_log_by_timer_key or command_log_by_name
select
    l.position, l.recorded_at, l.intent, l.timer_key, l.tenant_id, l.name, l.timer_type,
    l.process_instance_key, l.element_instance_key, l.target_element_id, l.due_date, l.created_at, l.schedule,
    l.occurrence, l.target, null::text as payload, l.holder, l.detail::text as detail
from shardclock.command_log l
where (l.timer_key = :timer_key or (l.tenant_id = :tenant_id and l.name = :name))
    and l.tenant_id = :tenant_id
    and (:name::text is null or l.name = :name)
    and (:intent::text is null or l.intent = :intent)
    and (:target::text is null or l.target = :target)
    and (:process_instance_key::bigint is null or l.process_instance_key = :process_instance_key)
    and (:since::timestamptz is null or l.recorded_at >= :since)
    and (:before::timestamptz is null or l.recorded_at < :before)
    and (:after::bigint is null or (l.recorded_at, l.position) < (:after_at::timestamptz, :after))
order by l.recorded_at desc, l.position desc
limit :page_size::integer
