-- Finds the instances that have an incident, the newest first.
--
-- in:    as of find_instances: :tenant_id text or null (null: of all), :process_id text or null, :before bigint or null,
--        :page_size integer
-- out:   instance_key bigint, tenant_id text, process_id text, version integer, state text, started_at timestamptz,
--        ended_at timestamptz, parent_key bigint, incidents bigint, business_key text or null, as find_instances tells them
-- locks: nothing
-- index: incidents_pkey, backwards; instances_pkey, definitions_pkey and business_keys_pkey, one probe for each
select
    i.instance_key, i.tenant_id, i.process_id,
    (select d.version from shardclock.definitions d where d.definition_key = i.definition_key) as version,
    coalesce(i.outcome, 'RUNNING') as state, i.started_at, i.ended_at, i.parent_key, n.incidents,
    (select b.business_key from shardclock.business_keys b where b.instance_key = i.instance_key) as business_key
from (
    -- Sorted before anything is joined: so a page reads only the instances that it shows or that other filters drop.
    select n.instance_key, count(*) as incidents
    from shardclock.incidents n
    where :before::bigint is null or n.instance_key < :before
    group by n.instance_key
    order by n.instance_key desc
) n
cross join lateral (select i.* from shardclock.instances i where i.instance_key = n.instance_key limit 1) i
where (:tenant_id::text is null or i.tenant_id = :tenant_id) and (:process_id::text is null or i.process_id = :process_id)
order by n.instance_key desc
limit :page_size::integer
