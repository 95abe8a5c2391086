-- Finds the running instances, newest first.
--
-- in:    as in find_instances:
--        :tenant_id text or null (all tenants)
--        :process_id text or null, :before bigint or null, :page_size integer
-- out:   the columns of find_instances; state is RUNNING, ended_at is null
-- locks: nothing
-- index: definitions_by_process, or all definitions; for each version instances_running, backwards, at most a page;
--        incidents_pkey and business_keys_pkey, one probe for each
select
    i.instance_key, i.tenant_id, i.process_id, i.version, 'RUNNING' as state, i.started_at, i.ended_at, i.parent_key,
    (select count(*) from shardclock.incidents n where n.instance_key = i.instance_key) as incidents,
    (select b.business_key from shardclock.business_keys b where b.instance_key = i.instance_key) as business_key
from (
    select r.instance_key, d.tenant_id, d.process_id, d.version, r.started_at, r.ended_at, r.parent_key
    from shardclock.definitions d
    cross join lateral (
        select r.instance_key, r.started_at, r.ended_at, r.parent_key
        from shardclock.instances r
        where (r.ended_at is null) is true
            and r.definition_key = d.definition_key
            and r.instance_key + 0 < coalesce(:before::bigint, 9223372036854775807)
        order by r.instance_key + 0 desc
        limit :page_size::integer
    ) r
    where (:tenant_id::text is null or d.tenant_id = :tenant_id)
        and (:process_id::text is null or d.process_id = :process_id)
    order by r.instance_key desc
    limit :page_size
) i
order by i.instance_key desc
