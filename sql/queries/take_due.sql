-- Fires what is overdue and leases what will soon be due, in one walk over the shard's slots, or over all of them.
--
-- in:    $1 holder bigint, $2 horizon interval, $3 lease interval, $4 batch integer,
--        $5 scope text: 'own' slots | 'ahead': the same | 'all' slots of every shard | 'backlog': own slots, and every
--        tenant's timers for a fair share of each,
--        $6 floor interval or null: only what is due later than this long ago (of the backlog: not later),
--        $7 fuse boolean: fire overdue plain timers here instead of leasing them,
--        $8 ramp_after interval: what is overdue by more is what an outage left,
--        $9 after_tenant text: a walk over tenants goes on after this one,
--        $10 lag_edges interval[], ascending, or null: don't measure the lags, $11 now timestamptz or null,
--        $12 lately interval or null: only what fell due later than this long ago, or than two leases while somebody's
--        are free; but for some slots: $13 first_slot integer or null and those that follow it, $14 slots integer or
--        null of them; tenants have no share then
-- out:   one row at least: server_time timestamptz, fired bigint, lags text (JSON: of what was fired here, an array of
--        [target, timer_type, how many edges its lag is within, timers, their lags' sum in seconds]) or null,
--        saturated boolean (there may be more), left_by_outage bigint of what was taken, ramp_per_s integer of this shard or null, next_tenant text to go on
--        after ('' is the beginning), then the leased timer, soonest first, or nulls: timer_key bigint,
--        due_date timestamptz, schedule text, zone text, missed text, anchor timestamptz, anchor_occurrence bigint,
--        occurrence bigint, repetitions integer
-- locks: the taken rows, for the statement; goes around what others have locked, and gives up after 0.1 s (55P03) if
--        one was locked between the look and the taking
-- index: timers_by_slot, each slot from where its look begins, and timers_by_tenant, each tenant from its oldest row;
--        then timers_pkey, a probe a row; holders_pkey, holders_ended, holders_suspended
with recursive me as materialized (
    -- The assignment is read here, by every claim: no shard ever acts on a stale one, and an ended holder takes nothing.
    select
        case when $5::text = 'all' then 0 else h.shard end as first_slot,
        case when $5::text = 'all' then 1 else h.shard_count end as step,
        -- Rounded up: a slow ramp must not stand still for having many shards.
        ceil(c.ramp_per_s / coalesce(h.shard_count, 1)::numeric)::integer as ramp_per_s,
        -- For this statement, which locks rows when it has read this.
        set_config('lock_timeout', '100ms', true) as patience
    from shardclock.holders h
    cross join shardclock.coordination c
    where h.holder = $1::bigint
        and h.ended_at is null
        -- A copy of the database, or somebody else's, fires nothing: docs/decisions/0016-a-copy-does-not-fire.md.
        and shardclock.held_why(h.identity) is null
),
gone as materialized (
    -- Whose claims are free. By two selects, each of its own small index: an "or" would read every holder there was.
    select h.holder from shardclock.holders h where h.ended_at > coalesce($11::timestamptz, now()) - $3::interval
    union all
    -- One that was suspended and has come to doesn't take from itself.
    select h.holder from shardclock.holders h where h.suspended_at is not null and h.ended_at is null and h.holder <> $1
),
tenant (tenant_id, oldest, number) as (
    -- One probe a tenant, and so many a walk; the next walk goes on where this one ends.
    (
        select t.tenant_id, t.due_date, 1
        from me
        cross join lateral (
            select t.tenant_id, t.due_date
            from shardclock.timers t
            where t.tenant_id > $9::text and t.tenant_id <> 'default'
            order by t.tenant_id, t.due_date
            limit 1
        ) t
        -- Not if it shall not look all the way: each tenant's fired rows would have to be passed, too.
        where $5 = 'backlog' and $12::interval is null
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
    where p.number < least(200, $4::integer)
),
behind as materialized (
    select t.tenant_id, t.number
    from tenant t
    where t.oldest <= coalesce($11::timestamptz, now()) - $6::interval
),
share as materialized (
    -- One for each tenant, and one for whoever is oldest.
    select greatest(1, $4 / (1 + count(*)))::integer as timers from behind
),
slots as materialized (
    select
        s.slot,
        greatest(1, share.timers * me.step / 840) as share,
        -- Where its look begins: docs/decisions/0023-fired-rows-that-stay.md.
        greatest(
            case when $5 <> 'backlog' then coalesce($11::timestamptz, now()) - $6 end,
            case
                when (s.slot - $13::integer + 840) % 840 >= $14::integer
                then coalesce($11::timestamptz, now())
                    - case when exists (select from gone) then greatest($12, 2 * $3) else $12 end
            end,
            '-infinity'
        ) as since
    from me
    cross join share
    cross join lateral generate_series(me.first_slot, 839, me.step) as s (slot)
    -- A batch that is smaller than the number of slots must not always begin with the same ones.
    order by case when share.timers < 840 then random() end
),
seen as materialized (
    -- A look without locks: docs/decisions/0021-no-lock-before-a-delete.md.
    select d.timer_key, d.due_date, d.touched, s.slot, s.share
    from slots s
    cross join lateral (
        -- Whoever locks a row, or has locked it, leaves his number in its xmax.
        select t.timer_key, t.due_date, t.xmax <> '0' as touched
        from shardclock.timers t
        where t.slot = s.slot
            -- Never clock_timestamp() here: it is volatile, and the walk would not stop at the horizon.
            and t.due_date <= coalesce($11::timestamptz, now()) + $2::interval
            and t.due_date > s.since
            -- No lease can end later than that: it was taken by a clock that has been set back since.
            and (
                t.claimed_until > coalesce($11::timestamptz, now())
                and t.claimed_until <= coalesce($11::timestamptz, now()) + 2 * $3::interval
                and t.claimed_by <> all (array(select gone.holder from gone))
            ) is not true
        order by t.due_date
        limit s.share
    ) d
    where $5 <> 'all'
    limit (select share.timers from share)
),
due as materialized (
    select n.timer_key, n.due_date, n.slot as place, n.share
    from seen n
    where n.slot <> all (array(select o.slot from seen o where o.touched))
    union all
    (
        -- Where somebody may hold a row, and in others' slots, whose keepers are at work: around what is locked.
        select d.timer_key, d.due_date, s.slot as place, s.share
        from slots s
        cross join lateral (
            select t.timer_key, t.due_date
            from shardclock.timers t
            where t.slot = s.slot
                and t.due_date <= coalesce($11::timestamptz, now()) + $2::interval
                and t.due_date > s.since
                and (
                    t.claimed_until > coalesce($11::timestamptz, now())
                    and t.claimed_until <= coalesce($11::timestamptz, now()) + 2 * $3::interval
                    and t.claimed_by <> all (array(select gone.holder from gone))
                ) is not true
            order by t.due_date
            limit s.share
            for update of t skip locked
        ) d
        where $5 = 'all' or s.slot = any (array(select o.slot from seen o where o.touched))
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
            and t.due_date <= coalesce($11::timestamptz, now()) - $6
            and (
                t.claimed_until > coalesce($11::timestamptz, now())
                and t.claimed_until <= coalesce($11::timestamptz, now()) + 2 * $3::interval
                and t.claimed_by <> all (array(select gone.holder from gone))
            ) is not true
        order by t.due_date
        limit share.timers
        for update of t skip locked
    ) d
),
fired as (
    -- By an array, not a join, and due or not "is true", which no index knows: whatever the planner believes of the
    -- table's size, it can only probe the key (docs/decisions/0005-queue-plans.md). All that was asked is asked again: of
    -- a row that has changed since the look, only this question sees what it is now.
    delete from shardclock.timers t
    where $7::boolean
        and t.timer_key = any (array(select due.timer_key from due))
        and (t.due_date <= coalesce($11::timestamptz, now())) is true
        and (
            t.claimed_until > coalesce($11::timestamptz, now())
            and t.claimed_until <= coalesce($11::timestamptz, now()) + 2 * $3::interval
            and t.claimed_by <> all (array(select gone.holder from gone))
        ) is not true
        and t.schedule is null
        and t.target = 'log'
    returning t.*
),
logged as (
    insert into shardclock.command_log (
        timer_key, process_instance_key, element_instance_key, due_date, created_at, occurrence, holder,
        intent, tenant_id, timer_type, target, target_element_id, name, schedule, payload
    )
    select
        f.timer_key, f.process_instance_key, f.element_instance_key, f.due_date, f.created_at, f.occurrence, $1,
        'TRIGGERED', f.tenant_id, f.timer_type, f.target, f.target_element_id, f.name, f.schedule, f.payload
    from fired f
    order by f.due_date
),
claimed as (
    update shardclock.timers t
    set claimed_by = $1, claimed_until = coalesce($11::timestamptz, clock_timestamp()) + $3
    where t.timer_key = any (array(select due.timer_key from due))
        and (t.due_date <= coalesce($11::timestamptz, now()) + $2) is true
        and (
            t.claimed_until > coalesce($11::timestamptz, now())
            and t.claimed_until <= coalesce($11::timestamptz, now()) + 2 * $3::interval
            and t.claimed_by <> all (array(select gone.holder from gone))
        ) is not true
        and not ($7 and t.due_date <= coalesce($11::timestamptz, now()) and t.schedule is null and t.target = 'log')
    returning
        t.timer_key, t.due_date, t.schedule, coalesce(t.zone, 'UTC') as zone, coalesce(t.missed, 'fire_once') as missed,
        t.anchor, t.anchor_occurrence, t.occurrence, t.repetitions
),
done as materialized (
    -- The clock is read when all are deleted; their records are written right after.
    select
        count(*) as timers,
        clock_timestamp() as at,
        array(select clock_timestamp() - e.edge from unnest($10::interval[]) as e (edge) order by e.edge desc) as edges
    from fired f
),
lags as materialized (
    select
        f.target, f.timer_type,
        width_bucket(f.due_date, done.edges) as within,
        count(*) as timers,
        sum(date_part('epoch', done.at - f.due_date)) as sum_s
    from fired f
    cross join done
    where $10 is not null
    group by 1, 2, 3
)
select
    clock_timestamp() as server_time,
    (select done.timers from done) as fired,
    (select jsonb_agg(jsonb_build_array(l.target, l.timer_type, l.within, l.timers, l.sum_s))::text from lags l) as lags,
    (select count(*) from due) >= $4
        or exists (select from due group by due.place, due.share having count(*) >= due.share) as saturated,
    (
        -- A timer may be found twice: among its slot's oldest, and among its tenant's.
        select count(distinct due.timer_key)
        from due
        where due.due_date <= coalesce($11::timestamptz, now()) - $8::interval
    ) as left_by_outage,
    (select me.ramp_per_s from me) as ramp_per_s,
    coalesce((select t.tenant_id from tenant t where t.number = least(200, $4)), '') as next_tenant,
    c.timer_key, c.due_date, c.schedule, c.zone, c.missed, c.anchor, c.anchor_occurrence, c.occurrence, c.repetitions
from (values (true)) as always (one)
left join claimed c on true
order by c.due_date
