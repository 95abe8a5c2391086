-- Claims the timers that became overdue in an outage. Each tenant gets an equal part, and so do the starts of all jobs.
--
-- The part of a tenant, or of the jobs, has only timers that are overdue by more than the floor. claim_due.sql explains
-- the other parameters.
--
-- in:    :holder bigint
--        :horizon interval: if negative, skip timers that are overdue by less than its absolute value
--        :lease interval, :batch integer, :floor interval, :fire_overdue boolean, :ramp_after interval
--        :after_tenant text: the scan over tenants begins after this tenant; '' is the beginning
--        :granted_by bigint[], :granted_targets text[], :granted_places integer[], :granted_lease interval
--        :lag_edges interval[] or null, :now timestamptz or null
--        :recent interval or null: as in claim_due; if it is set, tenants get no parts
--        :full_from integer or null, :full_count integer or null
-- out:   the columns of claim_due; next_tenant is the :after_tenant of the next scan
-- locks: the fired and leased rows, until the statement ends; skips rows that other transactions have locked. If a row
--        is locked between the read and the lock, gives up after 0.1 s (55P03)
-- index: timers_by_slot, each slot from the start of its scan, and timers_by_tenant, each tenant from its oldest row;
--        timers_by_target, one probe for each job; then timers_pkey, one probe for each row; holders_pkey,
--        holders_ended, holders_suspended
with recursive
-- include: included/claiming_shard.sql
tenant (tenant_id, oldest, number) as (
    -- Finds the tenants by one index probe for each, at most 200 tenants in a scan. The next scan begins after the last
    -- tenant of this scan.
    (
        select t.tenant_id, t.due_date, 1
        from me
        cross join lateral (
            select t.tenant_id, t.due_date
            from shardclock.timers t
            where t.tenant_id > :after_tenant::text and t.tenant_id <> 'default'
            order by t.tenant_id, t.due_date
            limit 1
        ) t
        -- With :recent set, tenants get no shares, because the scan of a tenant would read the dead rows of fired
        -- timers.
        where :recent::interval is null
    )
    union all
    select t.tenant_id, t.due_date, p.number + 1
    from tenant p
    cross join lateral (
        select t.tenant_id, t.due_date
        from shardclock.timers t
        where t.tenant_id > p.tenant_id and t.tenant_id <> 'default'
        order by t.tenant_id, t.due_date
        limit 1
    ) t
    where p.number < least(200, :batch::integer)
),
behind as materialized (
    select t.tenant_id, t.number
    from tenant t
    where t.oldest <= coalesce(:now::timestamptz, now()) - :floor::interval
),
job_start as materialized (
    -- The oldest overdue start of each job. If the batch is smaller than the number of jobs, the jobs are chosen at
    -- random.
    select s.timer_key, s.due_date
    from me
    cross join shardclock.jobs j
    cross join lateral (
        select t.timer_key, t.due_date
        from shardclock.timers t
        where t.target = 'job:' || j.name
            -- Repeat the condition of the index timers_by_target.
            and t.target <> 'log'
            and t.due_date <= coalesce(:now::timestamptz, now()) - :floor
            and shardclock.is_free(
                t.claimed_by, t.claimed_until, coalesce(:now::timestamptz, now()), :lease,
                array(select freed.holder from freed)
            )
        order by t.due_date
        limit 1
        for update of t skip locked
    ) s
    where :recent::interval is null
    order by random()
    limit :batch
),
scan as materialized (
    -- Each tenant with overdue timers gets an equal part of the batch. Another part is for the oldest timers of the
    -- slots, independent of their tenants. Starts of jobs also get a part: they belong to the tenant default, and
    -- without a part they would wait for all older timers of this tenant.
    select
        greatest(
            1, :batch / (1 + (select count(*) from behind) + (select exists (select from job_start))::integer)
        )::integer as timers,
        null::timestamptz as since, false as is_sweep,
        me.part as first_slot, 839 as last_slot, me.part_count as step
    from me
),
-- include: included/rows_of_slots.sql
due as materialized (
    -- include: included/due_of_slots.sql
    union all
    (
        select j.timer_key, j.due_date, 840 as place, scan.timers as share
        from job_start j
        cross join scan
        limit (select scan.timers from scan)
    )
    union all
    select d.timer_key, d.due_date, 840 + b.number as place, scan.timers as share
    from behind b
    cross join scan
    cross join lateral (
        select t.timer_key, t.due_date
        from shardclock.timers t
        where t.tenant_id = b.tenant_id
            and t.tenant_id <> 'default'
            and t.due_date <= coalesce(:now::timestamptz, now()) - :floor
            and shardclock.is_free(
                t.claimed_by, t.claimed_until, coalesce(:now::timestamptz, now()), :lease,
                array(select freed.holder from freed)
            )
        order by t.due_date
        limit scan.timers
        for update of t skip locked
    ) d
),
following as materialized (
    select coalesce((select t.tenant_id from tenant t where t.number = least(200, :batch)), '') as tenant_id
),
-- include: included/fire_or_lease_due.sql
-- include: included/claim_result.sql
