-- Finds the instances with a business key, newest first, including instances that have not begun.
--
-- in:    :business_key text
--        as in find_instances:
--        :tenant_id text or null (all tenants)
--        :process_id text or null, :state text or null, :before bigint or null, :page_size integer
-- out:   the columns of find_instances; an instance that no engine has begun is STARTING, with an incident if its start
--        was given up
-- locks: nothing
-- index: business_keys_by_key, all rows of the key; instances_pkey, definitions_pkey and incidents_pkey, one probe for
--        each; deliveries_pkey and dead_letters_pkey, one probe for each instance that has not begun
select
    i.instance_key, i.tenant_id, d.process_id, d.version, i.state, i.started_at, i.ended_at, i.parent_key, i.incidents,
    b.business_key
from (
    -- Sort before the joins, so that the call reads no instances beyond the page.
    select b.instance_key, b.business_key, -b.instance_key as place
    from shardclock.business_keys b
    where b.business_key = :business_key::text
        and (:tenant_id::text is null or b.tenant_id = :tenant_id)
        and (:before::bigint is null or -b.instance_key > - :before)
    order by place
) b
cross join lateral (
    select
        r.instance_key, r.tenant_id, r.definition_key, coalesce(r.outcome, 'RUNNING') as state, r.started_at, r.ended_at,
        r.parent_key,
        (select count(*) from shardclock.incidents n where n.instance_key = r.instance_key) as incidents
    from shardclock.instances r
    where r.instance_key = b.instance_key
    union all
    -- With this limit, Postgres stops after the first branch that returns a row.
    select w.timer_key, w.tenant_id, (w.payload ->> 'definition')::bigint, 'STARTING', w.fired_at, null, null, 0
    from shardclock.deliveries w
    where w.timer_key = b.instance_key and (w.target = 'process:instance') is true and w.process_instance_key is null
    union all
    select w.timer_key, w.tenant_id, (w.payload ->> 'definition')::bigint, 'STARTING', w.fired_at, null, null, 1
    from shardclock.dead_letters w
    where w.timer_key = b.instance_key and (w.target = 'process:instance') is true and w.process_instance_key is null
    limit 1
) i
cross join lateral (
    select d.process_id, d.version
    from shardclock.definitions d
    where d.definition_key = i.definition_key
    limit 1
) d
where (:process_id::text is null or d.process_id = :process_id)
    and (
        :state::text is null
        or case :state
            when 'ENDED' then i.ended_at is not null
            when 'INCIDENT' then i.incidents > 0
            else i.state = :state
        end
    )
order by b.place
limit :page_size::integer
