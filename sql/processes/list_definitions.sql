-- Lists deployed processes, by tenant and id, the newest version first.
--
-- in:    :tenant_id text or null (all tenants)
--        :process_id text or null, :all_versions boolean
--        :after bigint: the end of the previous page, or 0
--        :page_size integer
-- out:   definition_key bigint, tenant_id text, process_id text, version integer, name text, resource text, deployed_at
--          timestamptz
--        running bigint: instances of this version that have not ended, counted up to 1,000
-- locks: nothing
-- index: definitions_pkey and definitions_by_process; instances_running, up to 1,000 rows for each
select
    d.definition_key, d.tenant_id, d.process_id, d.version, d.name, d.resource, d.deployed_at,
    (
        select count(*)
        from (
            select
            from shardclock.instances i
            where i.definition_key = d.definition_key and (i.ended_at is null) is true
            limit 1000
        ) i
    ) as running
from shardclock.definitions d
where (:tenant_id::text is null or d.tenant_id = :tenant_id)
    and (:process_id::text is null or d.process_id = :process_id)
    and d.deleted_at is null
    and d.definition_key > :after::bigint
    and (
        :all_versions::boolean
        or not exists (
            select from shardclock.definitions n
            where n.tenant_id = d.tenant_id and n.process_id = d.process_id and n.version > d.version
                and n.deleted_at is null
        )
    )
order by d.definition_key
limit :page_size::integer
