-- Finds records of a tenant in one section of the log, newest first.
--
-- in:    :tenant_id text
--        then filters, null for none:
--        :intent text, :target text, :process_instance_key bigint, :since timestamptz, :before timestamptz
--        :above bigint and :below bigint: positions between which the log is read
--        :page_size integer
-- out:   the columns of records_at, without payloads
-- locks: nothing
-- index: command_log_in_order, all records of the section until the page is full
select
    l.position, l.recorded_at, l.intent, l.timer_key, l.tenant_id, l.name, l.timer_type,
    l.process_instance_key, l.element_instance_key, l.target_element_id, l.due_date, l.created_at, l.schedule,
    l.occurrence, l.target, null::text as payload, l.holder, l.detail::text as detail
from shardclock.command_log l
where l.position > :above
    and l.position < :below
    and l.tenant_id = :tenant_id
    and (:intent::text is null or l.intent = :intent)
    and (:target::text is null or l.target = :target)
    and (:process_instance_key::bigint is null or l.process_instance_key = :process_instance_key)
    and (:since::timestamptz is null or l.recorded_at >= :since)
    and (:before::timestamptz is null or l.recorded_at < :before)
order by l.position desc
limit :page_size::integer
