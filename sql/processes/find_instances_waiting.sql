-- Finds the running instances of one version that wait, at any element or at one element; the oldest instance first.
--
-- in:    :definition_key bigint
--        :node_id text or null (any element)
--        :instances_max integer: the limit of instances to read
--        as in find_instances:
--        :tenant_id text or null (all tenants)
--        :process_id text or null, :business_key text or null
--        :state text or null: RUNNING, or INCIDENT for instances with an incident; another state matches no instance
--        :after bigint or null: the `next` of the previous page
--        :page_size integer
-- out:   instance_key bigint, tenant_id text, process_id text, version integer
--        state text: RUNNING
--        started_at timestamptz
--        ended_at timestamptz: always null
--        parent_key bigint, incidents bigint
--        business_key text or null
--        since timestamptz: the start of the longest wait
--        next bigint: the same in each row; null: this is the last page
--        a page without instances has one row, with nulls in all columns except `next`
-- locks: nothing
-- index: instances_running, at most :instances_max rows, and the probes of waits_of_definition for each;
--        definitions_pkey, incidents_pkey and business_keys_pkey, one probe for each row of the page
with running as materialized (
    select i.instance_key, i.tenant_id, i.process_id, i.definition_key, i.started_at, i.ended_at, i.parent_key
    from shardclock.instances i
    where i.definition_key = :definition_key::bigint
        and (i.ended_at is null) is true
        and i.instance_key + 0 > coalesce(:after::bigint, 0)
        and (:tenant_id::text is null or i.tenant_id = :tenant_id)
        and (:process_id::text is null or i.process_id = :process_id)
    order by i.instance_key + 0
    limit :instances_max::integer
),
waiting as materialized (
    select r.instance_key, min(w.since) as since
    from running r
    cross join lateral (
        -- include: included/waits_of_instance.sql
    ) w
    where (:node_id::text is null or w.node_id = :node_id)
    group by r.instance_key
    order by r.instance_key
),
found as materialized (
    select w.instance_key, w.since, n.incidents, b.business_key
    from waiting w
    cross join lateral (
        select count(*) as incidents from shardclock.incidents n where n.instance_key = w.instance_key
    ) n
    -- A subquery instead of a join, so that a plan for empty tables does not read other business keys.
    cross join lateral (
        select (select b.business_key from shardclock.business_keys b where b.instance_key = w.instance_key) as business_key
    ) b
    where (:business_key::text is null or b.business_key = :business_key)
        and (:state::text is null or :state = 'RUNNING' or (:state = 'INCIDENT' and n.incidents > 0))
    order by w.instance_key
    limit :page_size::integer
)
select
    f.instance_key, r.tenant_id, r.process_id,
    (select d.version from shardclock.definitions d where d.definition_key = r.definition_key) as version,
    case when f.instance_key is not null then 'RUNNING' end as state, r.started_at, r.ended_at, r.parent_key, f.incidents,
    f.business_key, f.since, page.next
from (
    select case
        when (select count(*) from found) = :page_size then (select max(f.instance_key) from found f)
        when (select count(*) from running) = :instances_max then (select max(r.instance_key) from running r)
    end as next
) page
left join found f on true
left join running r on r.instance_key = f.instance_key
order by f.instance_key
