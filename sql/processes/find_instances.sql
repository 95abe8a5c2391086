-- Finds instances, newest first.
--
-- in:    :tenant_id text or null (all tenants)
--        :process_id text or null
--        :state text or null: COMPLETED, or ENDED for any outcome
--        :before bigint or null: the last key of the previous page
--        :page_size integer
-- out:   instance_key bigint, tenant_id text, process_id text
--        version integer: the version of the process
--        state text: RUNNING, COMPLETED, CANCELED or ERROR
--        started_at timestamptz, ended_at timestamptz, parent_key bigint, incidents bigint, business_key text or null
-- locks: nothing
-- index: instances_pkey, backwards, or instances_by_process; definitions_pkey, incidents_pkey and business_keys_pkey,
--        one probe for each
select
    i.instance_key, i.tenant_id, i.process_id, d.version, coalesce(i.outcome, 'RUNNING') as state, i.started_at,
    i.ended_at, i.parent_key,
    (select count(*) from shardclock.incidents n where n.instance_key = i.instance_key) as incidents,
    (select b.business_key from shardclock.business_keys b where b.instance_key = i.instance_key) as business_key
from shardclock.instances i
join shardclock.definitions d on d.definition_key = i.definition_key
where (:tenant_id::text is null or i.tenant_id = :tenant_id)
    and (:process_id::text is null or i.process_id = :process_id)
    and (:before::bigint is null or i.instance_key < :before)
    and (
        :state::text is null
        or case :state
            when 'ENDED' then i.ended_at is not null
            else i.outcome = :state
        end
    )
order by i.instance_key desc
limit :page_size::integer
