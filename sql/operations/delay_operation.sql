-- Delays a running operation after a failure.
--
-- in:    :operation_id bigint, :due_in interval, :error text
-- out:   operation_id bigint, no row if it has ended
-- locks: the row
-- index: operations_pkey
update shardclock.operations o
set due_at = now() + :due_in::interval, error = :error::text
where o.operation_id = :operation_id::bigint and o.state = 'RUNNING'
returning o.operation_id
