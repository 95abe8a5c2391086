-- Finds timers that have ended, in one section of the log, newest first.
--
-- in:    :state text: TRIGGERED, CANCELED, SKIPPED or ENDED
--        then filters, null for none:
--        :tenant_id text, :due_from timestamptz, :due_before timestamptz, :process_instance_key bigint, :target text,
--          :name_contains text, :only_schedules boolean, :changed_from timestamptz, :changed_before timestamptz
--        :above bigint and :below bigint: positions between which the log is read
--        :page_size integer
--        :bytes bigint or null: the page ends once its payloads have this size
-- out:   as find_timers:
--        timer_key bigint, state text, tenant_id text, name text, timer_type text, process_instance_key bigint,
--          element_instance_key bigint, target_element_id text, due_date timestamptz, created_at timestamptz
--        changed_at timestamptz and resume_at timestamptz: always null
--        schedule text, zone text, missed text, occurrence bigint, target text, payload text, ended_at timestamptz,
--          holder bigint, detail text, page text
-- locks: nothing
-- index: command_log_in_order, all records of the section until the page is full
select
    l.timer_key, l.intent as state, l.tenant_id, l.name, l.timer_type, l.process_instance_key, l.element_instance_key,
    l.target_element_id, l.due_date, l.created_at, null::timestamptz as changed_at,
    null::timestamptz as resume_at, l.schedule, null::text as zone, null::text as missed, l.occurrence, l.target,
    l.payload::text as payload, l.recorded_at as ended_at, l.holder, l.detail::text as detail,
    l.position::text as page
from (
    select
        f.*,
        sum(case when :bytes::bigint is null then 0 else octet_length(f.payload::text) end) over (
            order by f.position desc rows between unbounded preceding and 1 preceding
        ) as bytes_before
    from (
        select l.*
        from shardclock.command_log l
        where l.position > :above
            and l.position < :below
            and (l.intent in ('TRIGGERED', 'CANCELED') or (l.intent = 'SKIPPED' and l.detail ->> 'policy' = 'skip'))
            and (:state::text = 'ENDED' or l.intent = :state)
            and (:tenant_id::text is null or l.tenant_id = :tenant_id)
            and (:due_from::timestamptz is null or l.due_date >= :due_from)
            and (:due_before::timestamptz is null or l.due_date < :due_before)
            and (:process_instance_key::bigint is null or l.process_instance_key = :process_instance_key)
            and (:target::text is null or l.target = :target)
            and (:name_contains::text is null or position(lower(:name_contains) in lower(l.name)) > 0)
            and (not :only_schedules::boolean or l.schedule is not null)
            and (:changed_from::timestamptz is null or l.recorded_at >= :changed_from)
            and (:changed_before::timestamptz is null or l.recorded_at < :changed_before)
        order by l.position desc
        limit :page_size::integer
    ) f
) l
where :bytes::bigint is null or coalesce(l.bytes_before, 0) < :bytes
order by l.position desc
