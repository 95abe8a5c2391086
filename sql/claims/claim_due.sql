-- Fires the timers that are overdue, and leases those that fall due within the horizon, in one scan.
--
-- in:    :holder bigint, :horizon interval, :lease interval, :batch integer,
--        :scope text: 'own' and 'ahead' scan the holder's slots; 'sweep' scans every slot; 'outage' scans the holder's
--        slots, and takes a fair share of every tenant's timers,
--        :floor interval or null: skip timers overdue by more than this. The tenant part of an outage scan is the reverse:
--        it takes only those,
--        :fire_overdue boolean: fire overdue plain timers here instead of leasing them,
--        :ramp_after interval: timers that are overdue by more were left by an outage,
--        :after_tenant text: the scan over tenants begins after this one; '' is the beginning,
--        :lag_edges interval[], ascending, or null: don't measure the lags, :now timestamptz or null,
--        :recent interval or null: scan only for timers due after now - recent; null scans every slot from its oldest
--        row. While a dead holder's claims are free, the scan goes back two leases at least. With :recent set, tenants
--        get no share,
--        :full_from integer or null and :full_count integer or null: :full_count slots, from slot :full_from on, are
--        scanned from their oldest row, independent of :recent,
--        :slot integer or null: scan this slot of the holder's alone; null scans each
-- out:   at least one row: server_time timestamptz, fired bigint, deliveries bigint (how many of these have a target to
--        call), lags text or null (of the timers fired here, as JSON:
--        an array of [target, timer_type, 'ahead' or 'late', how many edges the lag is within, timers, sum of their
--        lags in seconds]), saturated boolean (there may be more), left_by_outage bigint (how many of the taken timers
--        an outage left), ramp_per_s integer or null (this shard's part of the ramp), next_tenant text (the next scan's
--        :after_tenant), then one leased timer, soonest first, or nulls: timer_key bigint, due_date timestamptz,
--        schedule text, zone text, missed text, anchor timestamptz, anchor_occurrence bigint, occurrence bigint,
--        repetitions integer, starts_job boolean, tenant_id text or null, version xid
-- locks: the taken rows, for the statement; leaves out rows that others have locked, and gives up after 0.1 s (55P03)
--        if a row was locked between the reading and the locking
-- index: timers_by_slot, each slot from where its scan begins, and timers_by_tenant, each tenant from its oldest row;
--        then timers_pkey, one probe for each row; holders_pkey, holders_ended, holders_suspended
with recursive me as materialized (
    -- Every claim reads the assignment here: so no shard acts on a stale one, and an ended holder takes nothing.
    select
        case when :scope::text = 'sweep' then 0 else h.part end as first_slot,
        case when :scope::text = 'sweep' then 1 else h.part_count end as step,
        -- Rounded up: else a ramp lower than the number of shards would be 0 for each of them. One without slots, as while
        -- its cluster stands by, takes no more than any other.
        case
            when c.ramp_per_s is not null then
                ceil(
                    c.ramp_per_s / coalesce(
                        h.part_count,
                        (select count(*) from shardclock.holders s where s.role = 'shard' and s.ended_at is null)
                    )::numeric
                )::integer
        end as ramp_per_s,
        -- Bounds the lock waits of this statement alone: Postgres evaluates this before it locks any row.
        set_config('lock_timeout', '100ms', true) as patience
    from shardclock.holders h
    cross join shardclock.coordination c
    where h.holder = :holder::bigint
        and h.ended_at is null
        -- Nothing fires in a copy, nor in another installation's database: docs/decisions/0016-a-copy-does-not-fire.md.
        and shardclock.hold_reason(h.identity) is null
),
freed as materialized (
    -- The holders whose claims are free. Two selects, each of which reads a small index: with an "or", Postgres would
    -- read every holder that there ever was.
    select h.holder from shardclock.holders h where h.ended_at > coalesce(:now::timestamptz, now()) - :lease::interval
    union all
    -- The claiming holder may itself be suspended, and work again: it doesn't take its own claims.
    select h.holder
    from shardclock.holders h
    where h.suspended_at is not null and h.ended_at is null and h.holder <> :holder
),
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
        where :scope = 'outage' and :recent::interval is null
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
share as materialized (
    -- One share for each tenant that is behind, and one for the slots' oldest timers, whichever tenant's they are.
    select greatest(1, :batch / (1 + count(*)))::integer as timers from behind
),
slots as materialized (
    select
        s.slot,
        greatest(1, share.timers * me.step / 840) as share,
        -- Where the slot's scan begins: docs/decisions/0023-fired-rows-that-stay.md.
        greatest(
            case when :scope <> 'outage' then coalesce(:now::timestamptz, now()) - :floor end,
            case
                when (s.slot - :full_from::integer + 840) % 840 >= :full_count::integer
                then coalesce(:now::timestamptz, now())
                    - case when exists (select from freed) then greatest(:recent, 2 * :lease) else :recent end
            end,
            '-infinity'
        ) as since
    from me
    cross join share
    cross join lateral generate_series(coalesce(:slot::integer, me.first_slot), coalesce(:slot, 839), me.step) as s (slot)
    -- A batch smaller than the number of slots must not always come from the same slots.
    order by case when share.timers < 840 then random() end
),
seen as materialized (
    -- This reads without locks: docs/decisions/0021-no-lock-before-a-delete.md.
    select d.timer_key, d.due_date, d.touched, s.slot, s.share
    from slots s
    cross join lateral (
        -- A transaction that locks a row leaves its number in the row's xmax, and the number stays after its end.
        select t.timer_key, t.due_date, t.xmax <> '0' as touched
        from shardclock.timers t
        where t.slot = s.slot
            -- Never clock_timestamp() here: it is volatile, so the index scan would not stop at the horizon.
            and t.due_date <= coalesce(:now::timestamptz, now()) + :horizon::interval
            and t.due_date > s.since
            and shardclock.is_free(
                t.claimed_by, t.claimed_until, coalesce(:now::timestamptz, now()), :lease,
                array(select freed.holder from freed)
            )
        order by t.due_date
        limit s.share
    ) d
    where :scope <> 'sweep'
    limit (select share.timers from share)
),
due as materialized (
    select n.timer_key, n.due_date, n.slot as place, n.share
    from seen n
    where n.slot <> all (array(select o.slot from seen o where o.touched))
    union all
    (
        -- Rows that others have locked are left out here. This reads the slots in which somebody may have locked a row,
        -- and in a sweep all slots, since other shards are at work there.
        select d.timer_key, d.due_date, s.slot as place, s.share
        from slots s
        cross join lateral (
            select t.timer_key, t.due_date
            from shardclock.timers t
            where t.slot = s.slot
                and t.due_date <= coalesce(:now::timestamptz, now()) + :horizon::interval
                and t.due_date > s.since
                and shardclock.is_free(
                    t.claimed_by, t.claimed_until, coalesce(:now::timestamptz, now()), :lease,
                    array(select freed.holder from freed)
                )
            order by t.due_date
            limit s.share
            for update of t skip locked
        ) d
        where :scope = 'sweep' or s.slot = any (array(select o.slot from seen o where o.touched))
        limit (select share.timers from share)
    )
    union all
    select d.timer_key, d.due_date, 840 + b.number as place, share.timers as share
    from behind b
    cross join share
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
        limit share.timers
        for update of t skip locked
    ) d
),
fired as (
    -- An array, not a join, and "is true" behind the due date, so that no index fits it: whatever the planner believes
    -- about the table's size, it can only probe the key (docs/decisions/0005-queue-plans.md). All conditions of the
    -- reading stand here again: if a row has changed since then, only these see its newest version.
    delete from shardclock.timers t
    where :fire_overdue::boolean
        and t.timer_key = any (array(select due.timer_key from due))
        and (t.due_date <= coalesce(:now::timestamptz, now())) is true
        and shardclock.is_free(
            t.claimed_by, t.claimed_until, coalesce(:now::timestamptz, now()), :lease,
            array(select freed.holder from freed)
        )
        -- A lease that was taken after the reading stands: its holder was perhaps suspended then, and works again.
        and (
            t.claimed_until > coalesce(:now::timestamptz, now()) + :lease
            and t.claimed_until <= coalesce(:now::timestamptz, now()) + 2 * :lease
        ) is not true
        and t.schedule is null
    returning t.*
),
logged as (
    -- The record, the delivery and the lags stand in fire_due.sql, too: docs/decisions/0004-one-claim-statement.md.
    insert into shardclock.command_log (
        timer_key, process_instance_key, element_instance_key, due_date, created_at, occurrence, holder,
        intent, tenant_id, timer_type, target, target_element_id, name, schedule, payload, detail
    )
    select
        f.timer_key, f.process_instance_key, f.element_instance_key, f.due_date, f.created_at, f.occurrence, :holder,
        'TRIGGERED', f.tenant_id, f.timer_type, f.target, f.target_element_id, f.name, f.schedule, f.payload,
        case when f.changed_at is not null then jsonb_build_object('changed_at', f.changed_at) end
    from fired f
    order by f.due_date
),
delivering as (
    -- What a target is to be called for. A firing whose target is the log leaves only its record.
    insert into shardclock.deliveries (
        timer_key, process_instance_key, element_instance_key, next_attempt_at, due_date, created_at, occurrence, slot,
        tenant_id, timer_type, target, target_element_id, name, schedule, payload
    )
    select
        f.timer_key, f.process_instance_key, f.element_instance_key, coalesce(:now::timestamptz, now()), f.due_date,
        f.created_at, f.occurrence, f.slot, f.tenant_id, f.timer_type, f.target, f.target_element_id, f.name, f.schedule,
        f.payload
    from fired f
    where f.target <> 'log'
),
claimed as (
    update shardclock.timers t
    set claimed_by = :holder, claimed_until = coalesce(:now::timestamptz, clock_timestamp()) + :lease
    where t.timer_key = any (array(select due.timer_key from due))
        and (t.due_date <= coalesce(:now::timestamptz, now()) + :horizon) is true
        and shardclock.is_free(
            t.claimed_by, t.claimed_until, coalesce(:now::timestamptz, now()), :lease,
            array(select freed.holder from freed)
        )
        -- A lease that was taken after the reading stands: its holder was perhaps suspended then, and works again.
        and (
            t.claimed_until > coalesce(:now::timestamptz, now()) + :lease
            and t.claimed_until <= coalesce(:now::timestamptz, now()) + 2 * :lease
        ) is not true
        and not (
            :fire_overdue
            and t.due_date <= coalesce(:now::timestamptz, now())
            and t.schedule is null
        )
    returning
        t.timer_key, t.due_date, t.schedule, coalesce(t.zone, 'UTC') as zone, coalesce(t.missed, 'fire_once') as missed,
        t.anchor, t.anchor_occurrence, t.occurrence, t.repetitions,
        t.target like 'job:%' as starts_job,
        case when t.schedule is not null then t.tenant_id end as tenant_id, t.xmin as version
),
done as materialized (
    -- The clock is read when all timers are deleted; their records are written right after.
    select
        count(*) as timers,
        count(*) filter (where f.target <> 'log') as deliveries,
        clock_timestamp() as at,
        array(
            select clock_timestamp() - e.edge from unnest(:lag_edges::interval[]) as e (edge) order by e.edge desc
        ) as edges
    from fired f
),
lags as materialized (
    -- In a select of its own the function becomes part of the expressions; as a table it would cost 0.3 µs a row.
    select
        shardclock.kind_of_target(f.target) as target, f.timer_type,
        case when l.since > f.due_date + interval '1 s' then 'late' else 'ahead' end as asked,
        width_bucket(l.since, done.edges) as within,
        count(*) as timers,
        date_part('epoch', sum(greatest(done.at - l.since, '0'))) as sum_s
    from fired f
    cross join lateral (select shardclock.late_since(f.due_date, f.created_at, f.changed_at, f.occurrence)) as l (since)
    cross join done
    where :lag_edges is not null
    group by 1, 2, 3, 4
)
select
    clock_timestamp() as server_time,
    (select done.timers from done) as fired,
    (select done.deliveries from done) as deliveries,
    (
        select jsonb_agg(jsonb_build_array(l.target, l.timer_type, l.asked, l.within, l.timers, l.sum_s))::text
        from lags l
    ) as lags,
    (select count(*) from due) >= :batch
        or exists (select from due group by due.place, due.share having count(*) >= due.share) as saturated,
    (
        -- A timer may be found twice: among the oldest of its slot, and among the oldest of its tenant.
        select count(distinct due.timer_key)
        from due
        where due.due_date <= coalesce(:now::timestamptz, now()) - :ramp_after::interval
    ) as left_by_outage,
    (select me.ramp_per_s from me) as ramp_per_s,
    coalesce((select t.tenant_id from tenant t where t.number = least(200, :batch)), '') as next_tenant,
    c.timer_key, c.due_date, c.schedule, c.zone, c.missed, c.anchor, c.anchor_occurrence, c.occurrence, c.repetitions,
    c.starts_job, c.tenant_id, c.version
from (values (true)) as always (one)
left join claimed c on true
order by c.due_date
