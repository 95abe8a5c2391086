-- Lists operations, newest first, one page at a time.
--
-- in:    filters, null for none:
--        :tenant_id text
--        :of_all boolean: also list the operations on all tenants
--        :verb text: also matches longer verbs that begin with this verb
--        :actor text: the name or the prefix of an API key, or a database role
--        :state text, :operation_id bigint
--        :of_operators boolean: whether :actor also finds operators
--        :below bigint, :limit bigint
-- out:   operation_id bigint, begun_at timestamptz, ended_at timestamptz or null, due_at timestamptz, matched bigint,
--          expected bigint or null, left_out bigint, changed bigint
--        unchanged_reasons text: JSON
--        by_operator boolean, state text, tenant_id text or null, verb text
--        filter text: JSON
--        change text: JSON
--        role text, interface text, key_prefix text or null, key_name text or null, error text or null
-- locks: nothing
-- index: operations_by_tenant or operations_pkey, backwards, up to the limit of the matching rows
select
    o.operation_id, o.begun_at, o.ended_at, o.due_at, o.matched, o.expected, o.left_out, o.changed,
    o.unchanged_reasons::text as unchanged_reasons, o.by_operator,
    -- include: included/operation_state.sql
    as state,
    o.tenant_id, o.verb, o.filter::text as filter, o.change::text as change, o.role, o.interface, o.key_prefix,
    o.key_name, o.error
from shardclock.operations o
where (:tenant_id::text is null or o.tenant_id = :tenant_id or (:of_all::boolean and o.tenant_id is null))
    and (:verb::text is null or o.verb = :verb or starts_with(o.verb, :verb || ' '))
    and (
        :actor::text is null
        or ((:of_operators::boolean or not o.by_operator) and :actor in (o.key_name, o.key_prefix))
        or (:of_operators and :actor = o.role)
    )
    and (
        :state::text is null
        or :state =
        -- include: included/operation_state.sql
    )
    and o.operation_id = coalesce(:operation_id::bigint, o.operation_id)
    and o.operation_id < coalesce(:below::bigint, 9223372036854775807)
order by o.operation_id desc
limit :limit::bigint
