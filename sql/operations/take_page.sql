-- Deletes the next page of a locked operation, and returns the page's keys, which the caller changes in the same
-- transaction.
--
-- in:    :operation_id bigint
-- out:   keys bigint[], no row after the last page
-- locks: the deleted row
-- index: operation_pages_pkey
delete from shardclock.operation_pages p
using shardclock.operations o
where o.operation_id = :operation_id::bigint
    and p.operation_id = o.operation_id
    and p.role = o.role
    and p.page = (
        select n.page
        from shardclock.operation_pages n
        where n.operation_id = :operation_id and n.role = o.role
        order by n.page
        limit 1
    )
returning p.keys
