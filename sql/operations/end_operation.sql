-- Ends a running operation before its last page, and deletes its remaining pages.
--
-- in:    :operation_id bigint, :state text (CANCELED or FAILED), :error text or null
-- out:   operation_id bigint, no row if it had ended
-- locks: the rows; waits while another transaction changes a page
-- index: operations_pkey, operation_pages_pkey
with ended as (
    update shardclock.operations o
    set state = :state::text, ended_at = clock_timestamp(), error = :error::text
    where o.operation_id = :operation_id::bigint and o.state = 'RUNNING'
    returning o.operation_id
),
dropped as (
    delete from shardclock.operation_pages p
    using ended e
    where p.operation_id = e.operation_id
)
select e.operation_id
from ended e
