-- Fires leased timers: takes each out of `timers`, appends its record, writes its schedule's next occurrence.
--
-- in:    $1 holder bigint, $2 timer_keys bigint[], $3 occurrences bigint[],
--        $4 next_occurrences bigint[] and $5 next_due_dates timestamptz[] (nulls: no next one),
--        $6 skipped bigint[] (occurrences missed after this one), $7 now timestamptz or null
-- out:   one row at least: server_time timestamptz, server_now timestamptz, then timer_key bigint of a fired
--        timer, or null; fewer than sent were fenced, cancelled, moved, early, or locked by somebody
-- locks: the fired rows, for the statement; skips what others have locked, so that no open transaction of a
--        client delays anybody's timers but its own
-- index: timers_pkey, two probes a row
with mine as materialized (
    select t.timer_key, s.next_occurrence, s.next_due_date, s.skipped
    from unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::timestamptz[], $6::bigint[])
        as s (timer_key, occurrence, next_occurrence, next_due_date, skipped)
    cross join lateral (
        select t.timer_key
        from shardclock.timers t
        where t.timer_key = s.timer_key
            and t.claimed_by = $1
            and t.occurrence = s.occurrence
            and t.due_date <= coalesce($7::timestamptz, now())
        for update of t skip locked
    ) t
),
fired as (
    -- The fence stands on the row that is deleted; a check in the step above would let a zombie through.
    delete from shardclock.timers t
    using mine
    where t.timer_key = mine.timer_key
        and t.claimed_by = $1
        and t.due_date <= coalesce($7::timestamptz, now())
    returning t.*, mine.next_occurrence, mine.next_due_date, mine.skipped
),
logged as (
    insert into shardclock.command_log (
        timer_key, process_instance_key, element_instance_key, due_date, created_at, occurrence, holder,
        intent, tenant_id, timer_type, target, target_element_id, name, schedule, payload, detail
    )
    select
        f.timer_key, f.process_instance_key, f.element_instance_key, f.due_date, f.created_at,
        f.occurrence + ended.later, $1,
        ended.intent, f.tenant_id, f.timer_type, f.target, f.target_element_id, f.name, f.schedule, f.payload,
        case when ended.intent = 'SKIPPED' then jsonb_build_object('count', f.skipped) end
    from fired f
    cross join lateral (values ('TRIGGERED', 0), ('SKIPPED', 1)) as ended (intent, later)
    where ended.intent = 'TRIGGERED' or f.skipped > 0
    order by f.due_date, f.timer_key, ended.later
),
recurred as (
    insert into shardclock.timers (
        process_instance_key, element_instance_key, due_date, anchor, occurrence, repetitions,
        tenant_id, timer_type, target, zone, target_element_id, name, schedule, payload
    )
    select
        f.process_instance_key, f.element_instance_key, f.next_due_date, f.anchor, f.next_occurrence, f.repetitions,
        f.tenant_id, f.timer_type, f.target, f.zone, f.target_element_id, f.name, f.schedule, f.payload
    from fired f
    where f.next_due_date is not null
)
select clock_timestamp() as server_time, now() as server_now, f.timer_key
from (values (true)) as always (one)
left join fired f on true
