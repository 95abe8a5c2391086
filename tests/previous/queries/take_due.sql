-- Fires what is overdue and leases what will soon be due, in one walk over the shard's slots.
--
-- in:    $1 holder bigint, $2 horizon interval, $3 lease interval, $4 batch integer,
--        $5 scope text: 'own' slots | 'upcoming' own slots, due after now only | 'all' slots of every shard,
--        $6 fuse boolean: fire overdue plain timers here instead of leasing them, $7 now timestamptz or null
-- out:   one row at least: server_time timestamptz, fired bigint, saturated boolean (a slot may hold more),
--        then the leased timer, soonest first, or nulls: timer_key bigint, due_date timestamptz, schedule text,
--        anchor timestamptz, occurrence bigint
-- locks: the taken rows, for the statement; skips what others have locked
-- index: timers_by_slot, each slot from its oldest row; then timers_pkey, a probe a row
with me as materialized (
    -- The assignment is read here, by every claim: no shard ever acts on a stale one, and an ended holder takes nothing.
    select
        case when $5::text = 'all' then 0 else h.shard end as first_slot,
        case when $5::text = 'all' then 1 else h.shard_count end as step
    from shardclock.holders h
    where h.holder = $1::bigint and h.ended_at is null
),
due as materialized (
    select d.timer_key, s.slot, me.step
    from me
    cross join lateral generate_series(me.first_slot, 839, me.step) as s (slot)
    cross join lateral (
        select t.timer_key
        from shardclock.timers t
        where t.slot = s.slot
            -- Never clock_timestamp() here: it is volatile, and the walk would not stop at the horizon.
            and t.due_date <= coalesce($7::timestamptz, now()) + $2::interval
            and t.due_date > case when $5 = 'upcoming' then coalesce($7::timestamptz, now()) else '-infinity' end
            and (
                t.claimed_until is null
                or t.claimed_until <= coalesce($7::timestamptz, now())
                or t.claimed_by = any (array(
                    select h.holder from shardclock.holders h where h.ended_at > coalesce($7::timestamptz, now()) - $3::interval
                ))
            )
        order by t.due_date
        limit greatest(1, $4::integer * me.step / 840)
        for update of t skip locked
    ) d
),
fired as (
    -- By an array, not a join: whatever the planner believes of the table's size, it can only probe the key.
    delete from shardclock.timers t
    where $6::boolean
        and t.timer_key = any (array(select due.timer_key from due))
        and t.due_date <= coalesce($7::timestamptz, now())
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
    set claimed_by = $1, claimed_until = coalesce($7::timestamptz, clock_timestamp()) + $3::interval
    where t.timer_key = any (array(select due.timer_key from due))
        and not ($6::boolean and t.due_date <= coalesce($7::timestamptz, now()) and t.schedule is null and t.target = 'log')
    returning t.timer_key, t.due_date, t.schedule, t.anchor, t.occurrence
)
select
    clock_timestamp() as server_time,
    (select count(*) from fired) as fired,
    exists (
        select from due group by due.slot, due.step having count(*) >= greatest(1, $4::integer * due.step / 840)
    ) as saturated,
    c.timer_key, c.due_date, c.schedule, c.anchor, c.occurrence
from (values (true)) as always (one)
left join claimed c on true
order by c.due_date
