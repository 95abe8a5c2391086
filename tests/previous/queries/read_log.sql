-- Reads the command log on from a cursor, up to where no transaction can still add anything.
--
-- in:    $1 xid text and $2 position bigint: the last record that was read, $3 limit bigint
-- out:   xid text, position bigint, recorded_at timestamptz, intent text, timer_key bigint, tenant_id text,
--        name text, timer_type text, process_instance_key bigint, element_instance_key bigint,
--        target_element_id text, due_date timestamptz, created_at timestamptz, schedule text, occurrence bigint,
--        target text, payload text, holder bigint, detail text; in the log's order
-- locks: nothing
-- index: command_log_in_order of each partition
select
    l.xid::text as xid, l.position, l.recorded_at, l.intent, l.timer_key, l.tenant_id, l.name, l.timer_type,
    l.process_instance_key, l.element_instance_key, l.target_element_id, l.due_date, l.created_at, l.schedule,
    l.occurrence, l.target, l.payload::text as payload, l.holder, l.detail::text as detail
from shardclock.command_log l
where (l.xid, l.position) > ($1::text::xid8, $2::bigint)
    -- Whoever has a lower xid has ended; whoever may yet commit a record has this one or a higher.
    and l.xid < pg_snapshot_xmin(pg_current_snapshot())
order by l.xid, l.position
limit $3
