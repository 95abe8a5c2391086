-- Adds the counts of one page to a running operation; after the last page, the operation ends with the state done.
--
-- in:    :operation_id bigint, :changed bigint, :unchanged_reasons jsonb (rows by reason), :due_in interval
-- out:   state text, matched bigint, changed bigint, unchanged_reasons text (JSON)
-- locks: the row
-- index: operations_pkey, operation_pages_pkey
update shardclock.operations o
set
    changed = o.changed + :changed::bigint,
    unchanged_reasons = o.unchanged_reasons || (
        select coalesce(
            jsonb_object_agg(g.reason, g.rows::bigint + coalesce((o.unchanged_reasons ->> g.reason)::bigint, 0)), '{}'
        )
        from jsonb_each_text(:unchanged_reasons::jsonb) as g (reason, rows)
    ),
    due_at = now() + :due_in::interval,
    error = null,
    state = case when r.is_any then 'RUNNING' else 'DONE' end,
    ended_at = case when r.is_any then null else clock_timestamp() end
from (
    select
        exists (
            select
            from shardclock.operation_pages p
            join shardclock.operations w using (operation_id)
            where p.operation_id = :operation_id::bigint and p.role = w.role
        ) as is_any
) r
where o.operation_id = :operation_id and o.state = 'RUNNING'
returning o.state, o.matched, o.changed, o.unchanged_reasons::text as unchanged_reasons
