-- Locks a running operation of this login until the end of the transaction, if the operation is due and unlocked.
--
-- in:    :operation_id bigint, :now timestamptz or null
-- out: operation_id bigint; no row if another gateway works on the operation
-- locks: the row; skips a locked row
-- index: operations_pkey
select o.operation_id
from shardclock.operations o
where o.operation_id = :operation_id::bigint
    and o.state = 'RUNNING'
    and o.role = session_user
    and (
        o.due_at <= coalesce(:now::timestamptz, now())
        -- A time that is further in the future than the longest pause was written before the clock was set back.
        or o.due_at > coalesce(:now, now()) + interval '1 hour'
    )
for update skip locked
