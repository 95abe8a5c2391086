-- Claims timers in the holder's slots that became overdue in an outage, in equal parts for each tenant and for the
-- starts of all jobs.
--
-- in:    :holder bigint, :horizon interval (if negative: skip timers that are overdue by less than its absolute value),
--        :lease interval, :batch integer, :floor interval: the shares of tenants and jobs have only timers that are overdue
--        by more than this, :fire_overdue boolean: the statement fires overdue plain timers and overdue schedules with a known
--        period; false: it leases them,
--        :ramp_after interval: a timer that is overdue by more than this counts as left by an outage,
--        :after_tenant text: the scan over tenants begins after this tenant; '' is the beginning,
--        :granted_by bigint[], :granted_targets text[] and :granted_places integer[]: one element of each array is a
--        grant: a worker, a target, and the number of the target's deliveries that the worker accepts; a worker may
--        have several grants, :granted_lease interval,
--        :lag_edges interval[], ascending, or null: don't measure the lags, :now timestamptz or null,
--        :recent interval or null: scan only for timers due after now - recent; null: scan each slot from its oldest
--        row. While the claims of an ended holder are free, the scan reads at least two lease durations back. If
--        :recent is set, tenants get no shares, :full_from integer or null and :full_count integer or null:
--        scan :full_count slots, from slot :full_from on, from their oldest row, independent of :recent
-- out:   a row for each leased timer, soonest first, in which only the columns of the timer are not null; then one row
--        with the numbers of the scan, in which the columns of the timer are null: server_time timestamptz, fired
--        bigint, deliveries bigint (the number of fired timers with a target to call), lags text or null (of the timers
--        fired here, as JSON), handed record[] or null (the deliveries that the statement claimed for workers: for
--        each, the columns of a claim, then the worker), saturated boolean (there may be more due timers), skipped
--        bigint (the number of skipped occurrences of the schedules fired here), left_by_outage bigint (the number of
--        taken timers that an outage left), ramp_per_s double precision or
--        null (this shard's part of the ramp; null: no limit; 0 during a hold), next_tenant text (the next scan's :after_tenant),
--        timer_key bigint, due_date timestamptz, schedule text, zone text, missed
--        text, missed_before timestamptz or null (the moment of the resume that chose `missed`), anchor timestamptz,
--        anchor_occurrence bigint, occurrence bigint, repetitions integer, starts_job
--        boolean, tenant_id text or null, version xid
-- locks: the fired and leased rows, until the statement ends; leaves out rows that other transactions have locked, and
--        gives up after 0.1 s (55P03) if a row was locked between the read and the lock
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
