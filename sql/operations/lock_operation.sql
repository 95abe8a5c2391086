-- Locks a running operation until the end of the transaction.
--
-- in:    :operation_id bigint
-- out:   operation_id bigint
-- locks: the row; waits for another transaction that changes a page
-- index: operations_pkey
select o.operation_id
from shardclock.operations o
where o.operation_id = :operation_id::bigint and o.state = 'RUNNING'
for update
