-- Deletes the operations that ended more than 400 days ago; the audit has the same retention.
--
-- in:    :now timestamptz or null
-- out:   operation_id bigint, one row for each deleted operation
-- locks: the deleted rows
-- index: operations_by_end
delete from shardclock.operations o
where o.ended_at < coalesce(:now::timestamptz, now()) - interval '400 days'
returning o.operation_id
