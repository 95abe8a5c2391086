-- Inserts an operation with the pages of its keys. If an earlier attempt of the request has inserted the operation,
-- returns the existing operation.
--
-- in:    :request_id uuid, :due_in interval, :matched bigint, :expected bigint or null, :left_out bigint, :changed
--          bigint
--        :unchanged_reasons jsonb: the number of rows for each reason
--        :by_operator boolean, :tenant_id text or null, :verb text, :filter jsonb, :change jsonb, :interface text,
--          :key_prefix text or null, :key_name text or null
--        :keys bigint[]: the keys of the rows to change; if there are none, the operation has ended
--        :page_size bigint
-- out:   operation_id bigint
-- locks: the new rows
-- index: operations_by_request
with begun as (
    insert into shardclock.operations (
        request_id, due_at, ended_at, state, matched, expected, left_out, changed, unchanged_reasons,
        by_operator, tenant_id, verb, filter, change, interface, key_prefix, key_name
    )
    select
        :request_id::uuid, now() + :due_in::interval, case when :keys::bigint[] = '{}' then now() end,
        case when :keys = '{}' then 'DONE' else 'RUNNING' end, :matched::bigint, :expected::bigint, :left_out::bigint,
        :changed::bigint, :unchanged_reasons::jsonb, :by_operator::boolean, :tenant_id::text, :verb::text, :filter::jsonb,
        :change::jsonb, :interface::text, :key_prefix::text, :key_name::text
    on conflict (request_id) do nothing
    returning operation_id
),
paged as (
    insert into shardclock.operation_pages (operation_id, page, tenant_id, keys)
    select b.operation_id, (k.place - 1) / :page_size::bigint, :tenant_id, array_agg(k.key order by k.place)
    from begun b
    cross join unnest(:keys) with ordinality as k (key, place)
    group by 1, 2
)
select b.operation_id
from begun b
union all
select o.operation_id
from shardclock.operations o
where o.request_id = :request_id
