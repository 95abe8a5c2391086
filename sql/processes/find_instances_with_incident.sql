-- Finds the instances with an incident, newest first, including instances with a given-up start.
--
-- in:    as in find_instances:
--        :tenant_id text or null (all tenants)
--        :process_id text or null, :before bigint or null, :page_size integer
-- out:   the columns of find_instances
-- locks: nothing
-- index: incidents_pkey, backwards; definitions_by_process, for the list of tenants; then for each tenant
--        dead_letters_of_starts, backwards: at most a page if :process_id excludes no rows; instances_pkey,
--        definitions_pkey and business_keys_pkey, one probe for each row
select
    f.instance_key, f.tenant_id, f.process_id, f.version, f.state, f.started_at, f.ended_at, f.parent_key, f.incidents,
    (select b.business_key from shardclock.business_keys b where b.instance_key = f.instance_key) as business_key
from (
    (
        select
            i.instance_key, i.tenant_id, i.process_id,
            (select d.version from shardclock.definitions d where d.definition_key = i.definition_key) as version,
            coalesce(i.outcome, 'RUNNING') as state, i.started_at, i.ended_at, i.parent_key, n.incidents
        from (
            -- Sort before the joins, so that the call reads no instances beyond the page.
            select n.instance_key, count(*) as incidents
            from shardclock.incidents n
            where :before::bigint is null or n.instance_key < :before
            group by n.instance_key
            order by n.instance_key desc
        ) n
        cross join lateral (select i.* from shardclock.instances i where i.instance_key = n.instance_key limit 1) i
        where (:tenant_id::text is null or i.tenant_id = :tenant_id)
            and (:process_id::text is null or i.process_id = :process_id)
        order by n.instance_key desc
        limit :page_size::integer
    )
    union all
    select w.timer_key, t.tenant_id, w.process_id, w.version, 'STARTING', w.fired_at, null, null, 1
    from (
        select distinct d.tenant_id
        from shardclock.definitions d
        where :tenant_id is null or d.tenant_id = :tenant_id
    ) t
    cross join lateral (
        select start.timer_key, d.process_id, d.version, start.fired_at
        -- include: included/given_up_starts.sql
    ) w
) f
order by f.instance_key desc
limit :page_size
