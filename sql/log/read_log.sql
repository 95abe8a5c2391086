-- Reads the command log after a position, up to the horizon, below which no new record can appear.
--
-- in:    :after bigint: the position of the last record that was read, :page_size integer, :partition integer,
--        :partitions integer (partition 0 of 1 is the whole log), :horizon bigint: a horizon that was read before; null
--        reads it now; :bytes bigint or null: after so many of payloads no other record follows
-- out:   position bigint, recorded_at timestamptz, intent text, timer_key bigint, tenant_id text, name text,
--        timer_type text, process_instance_key bigint, element_instance_key bigint, target_element_id text,
--        due_date timestamptz, created_at timestamptz, schedule text, occurrence bigint, target text, payload text,
--        holder bigint, detail text; in the order of position
-- locks: nothing
-- index: command_log_in_order of each partition
select
    l.position, l.recorded_at, l.intent, l.timer_key, l.tenant_id, l.name, l.timer_type,
    l.process_instance_key, l.element_instance_key, l.target_element_id, l.due_date, l.created_at, l.schedule,
    l.occurrence, l.target, l.payload::text as payload, l.holder, l.detail::text as detail
from (
    select
        r.*,
        sum(case when :bytes::bigint is null then 0 else octet_length(r.payload::text) end) over (
            order by r.position rows between unbounded preceding and 1 preceding
        ) as bytes_before
    from shardclock.read_log(:after, :page_size, :partition, :partitions, :horizon) r
) l
where :bytes::bigint is null or coalesce(l.bytes_before, 0) < :bytes
order by l.position
