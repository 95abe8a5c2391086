-- Finds the instances of a business key, the newest first.
--
-- in:    :business_key text; else as of find_instances: :tenant_id text or null (null: of all),
--        :process_id text or null, :state text or null, :before bigint or null, :page_size integer
-- out:   instance_key bigint, tenant_id text, process_id text, version integer, state text, started_at timestamptz,
--        ended_at timestamptz, parent_key bigint, incidents bigint, business_key text, as find_instances tells them
-- locks: nothing
-- index: business_keys_by_key, all of the key; instances_pkey, definitions_pkey and incidents_pkey, one probe for each
select
    i.instance_key, i.tenant_id, i.process_id,
    (select d.version from shardclock.definitions d where d.definition_key = i.definition_key) as version,
    coalesce(i.outcome, 'RUNNING') as state, i.started_at, i.ended_at, i.parent_key,
    (select count(*) from shardclock.incidents n where n.instance_key = i.instance_key) as incidents, b.business_key
from (
    -- Sorted before anything is joined: so a page reads only the instances that it shows or that other filters drop.
    select b.instance_key, b.business_key
    from shardclock.business_keys b
    where b.business_key = :business_key::text
        and (:tenant_id::text is null or b.tenant_id = :tenant_id)
        and (:before::bigint is null or b.instance_key < :before)
    order by b.instance_key desc
) b
-- A start that no engine has begun yet has no row here.
cross join lateral (select i.* from shardclock.instances i where i.instance_key = b.instance_key limit 1) i
where (:process_id::text is null or i.process_id = :process_id)
    and (
        :state::text is null
        or case :state
            when 'RUNNING' then i.ended_at is null
            when 'ENDED' then i.ended_at is not null
            when 'INCIDENT' then exists (select from shardclock.incidents n where n.instance_key = i.instance_key)
            else i.outcome = :state
        end
    )
order by b.instance_key desc
limit :page_size::integer
