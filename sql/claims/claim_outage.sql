-- Takes the timers that an outage left in the holder's slots, with a fair share for the timers of each tenant.
--
-- in:    :holder bigint, :horizon interval (negative: timers overdue by less are not taken), :lease interval,
--        :batch integer, :floor interval: of tenants, only timers overdue by more are taken,
--        :fire_overdue boolean: fire overdue plain timers here instead of leasing them,
--        :ramp_after interval: timers that are overdue by more were left by an outage,
--        :after_tenant text: the scan over tenants begins after this one; '' is the beginning,
--        :lag_edges interval[], ascending, or null: don't measure the lags, :now timestamptz or null,
--        :recent interval or null: scan only for timers due after now - recent; null scans every slot from its oldest
--        row. While a dead holder's claims are free, the scan goes back two leases at least. With :recent set,
--        tenants get no share,
--        :full_from integer or null and :full_count integer or null: :full_count slots, from slot :full_from on, are
--        scanned from their oldest row, independent of :recent
-- out:   at least one row: server_time timestamptz, fired bigint, deliveries bigint (how many of these have a target to
--        call), lags text or null (of the timers fired here, as JSON), saturated boolean (there may be more),
--        left_by_outage bigint (how many of the taken timers an outage left), ramp_per_s integer or null (this shard's
--        part of the ramp), then one leased timer, soonest first, or nulls: timer_key bigint, due_date timestamptz,
--        schedule text, zone text, missed text, anchor timestamptz, anchor_occurrence bigint, occurrence bigint,
--        repetitions integer, starts_job boolean, tenant_id text or null, version xid;
--        next_tenant text (the next scan's :after_tenant)
-- locks: the taken rows, for the statement; leaves out rows that others have locked, and gives up after 0.1 s (55P03)
--        if a row was locked between the reading and the locking
-- index: timers_by_slot, each slot from where its scan begins, and timers_by_tenant, each tenant from its oldest row;
--        then timers_pkey, one probe for each row; holders_pkey, holders_ended, holders_suspended
with recursive
-- include: claiming_shard.sql
tenant (tenant_id, oldest, number) as (
    -- One probe for each tenant, and at most 200 tenants in a scan; the next scan goes on where this one ends.
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
        -- Not with a window: the scan of each tenant would read past the rows that have fired.
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
scan as materialized (
    -- One share for each tenant that is behind, and one for the slots' oldest timers, whichever tenant's they are.
    select
        greatest(1, :batch / (1 + (select count(*) from behind)))::integer as timers,
        null::timestamptz as since, false as is_sweep,
        me.part as first_slot, 839 as last_slot, me.part_count as step
    from me
),
-- include: rows_of_slots.sql
due as materialized (
    -- include: due_of_slots.sql
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
-- include: take_due.sql
select
    -- include: claimed.sql
    ,
    coalesce((select t.tenant_id from tenant t where t.number = least(200, :batch)), '') as next_tenant
from (values (true)) as always (one)
left join claimed c on true
order by c.due_date
