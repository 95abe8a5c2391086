-- Finds cancelled instances, or instances that ended with an error, newest first.
--
-- in:    :state text: CANCELED or ERROR
--        as in find_instances:
--        :tenant_id text or null (all tenants)
--        :process_id text or null, :before bigint or null, :page_size integer
-- out:   the columns of find_instances
-- locks: nothing
-- index: definitions_by_process, for the list of tenants; then for each tenant instances_by_outcome, backwards: at most
--        a page if :process_id excludes no rows; definitions_pkey, incidents_pkey and business_keys_pkey, one probe for
--        each row
select
    i.instance_key, t.tenant_id, i.process_id,
    (select d.version from shardclock.definitions d where d.definition_key = i.definition_key) as version,
    i.outcome as state, i.started_at, i.ended_at, i.parent_key,
    (select count(*) from shardclock.incidents n where n.instance_key = i.instance_key) as incidents,
    (select b.business_key from shardclock.business_keys b where b.instance_key = i.instance_key) as business_key
from (
    -- List the tenants, because the index has the rows of each tenant in order.
    select distinct d.tenant_id
    from shardclock.definitions d
    where :tenant_id::text is null or d.tenant_id = :tenant_id
) t
cross join lateral (
    select i.instance_key, i.process_id, i.definition_key, i.outcome, i.started_at, i.ended_at, i.parent_key
    from shardclock.instances i
    -- The first condition is the condition of the partial index, so that a generic plan can use the index for both
    -- states.
    where coalesce(i.outcome, 'COMPLETED') <> 'COMPLETED'
        and i.outcome = :state::text
        and i.tenant_id = coalesce(:tenant_id, t.tenant_id)
        and (:process_id::text is null or i.process_id = :process_id)
        and i.instance_key + 0 < coalesce(:before::bigint, 9223372036854775807)
    order by i.instance_key + 0 desc
    limit :page_size::integer
) i
order by i.instance_key desc
limit :page_size
