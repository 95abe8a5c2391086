-- Finds the instances that no engine has begun yet, newest first, including instances with a given-up start.
--
-- in:    as in find_instances:
--        :tenant_id text or null (all tenants)
--        :process_id text or null, :before bigint or null, :page_size integer
-- out:   the columns of find_instances; state is STARTING, incidents is 1 if the start was given up
-- locks: nothing
-- index: definitions_by_process, for the list of tenants; then for each tenant deliveries_of_starts and
--        dead_letters_of_starts, backwards: at most a page if :process_id excludes no rows; definitions_pkey and
--        business_keys_pkey, one probe for each row
select
    s.instance_key, t.tenant_id, s.process_id, s.version, 'STARTING' as state, s.fired_at as started_at,
    null::timestamptz as ended_at, s.parent_key, s.incidents,
    (select b.business_key from shardclock.business_keys b where b.instance_key = s.instance_key) as business_key
from (
    -- List the tenants, because the indexes have the rows of each tenant in order.
    select distinct d.tenant_id
    from shardclock.definitions d
    where :tenant_id::text is null or d.tenant_id = :tenant_id
) t
cross join lateral (
    (
        select
            start.timer_key as instance_key, d.process_id, d.version, start.fired_at, 0::bigint as incidents,
            case when start.payload ->> 'parent' ~ '^[0-9]{1,18}$' then (start.payload ->> 'parent')::bigint end
                as parent_key
        from shardclock.deliveries start
        -- include: included/definition_of_start.sql
        where (start.target = 'process:instance' and start.process_instance_key is null) is true
            and start.tenant_id = coalesce(:tenant_id, t.tenant_id)
            and start.timer_key + 0 < coalesce(:before::bigint, 9223372036854775807)
            and (:process_id::text is null or d.process_id = :process_id)
        order by start.timer_key + 0 desc
        limit :page_size::integer
    )
    union all
    (
        -- A called instance never has a given-up start, because the calling instance gets the incident.
        select start.timer_key, d.process_id, d.version, start.fired_at, 1, null
        -- include: included/given_up_starts.sql
    )
) s
order by s.instance_key desc
limit :page_size
