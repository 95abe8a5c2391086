-- Finds the unlocked operation of this login that has been due for the longest time.
--
-- in:    :now timestamptz or null
-- out:   operation_id bigint, tenant_id text or null, verb text, change text (JSON), key_prefix text or null
-- locks: the row until the end of the statement; skips locked rows
-- index: operations_due
select o.operation_id, o.tenant_id, o.verb, o.change::text as change, o.key_prefix
from shardclock.operations o
where o.state = 'RUNNING'
    and o.role = session_user
    and (
        o.due_at <= coalesce(:now::timestamptz, now())
        -- A time that is further in the future than the longest pause was written before the clock was set back.
        or o.due_at > coalesce(:now, now()) + interval '1 hour'
    )
order by o.due_at, o.operation_id
limit 1
for update skip locked
