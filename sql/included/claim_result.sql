-- Returns the leased timers, soonest first, and a last row with the counts of the scan and the handed-over deliveries.
(
    select
        null::timestamptz as server_time, null::bigint as fired, null::bigint as deliveries, null::text as lags,
        null::record[] as handed, null::boolean as saturated, null::bigint as skipped, null::bigint as left_by_outage,
        null::double precision as ramp_per_s, null::text as next_tenant,
        c.timer_key, c.due_date, c.schedule, c.zone, c.missed, c.missed_before, c.anchor, c.anchor_occurrence,
        c.occurrence, c.repetitions, c.starts_job, c.tenant_id, c.version
    from claimed c
    order by c.due_date
)
union all
-- The counts are in a separate row: additional columns in each timer's row would double the cost of the row.
select
    clock_timestamp(), done.timers, done.deliveries,
    -- include: included/lags_as_json.sql
    -- include: included/handed.sql
    (select count(*) from due) >= :batch
        or exists (select from due group by due.place, due.share having count(*) >= due.share)
        or exists (select from recurring r where r.next_due_date <= coalesce(:now::timestamptz, now())),
    (select coalesce(sum(r.skipped), 0)::bigint from recurring r),
    (
        -- The scan may find a timer twice: among the oldest timers of its slot, and among the oldest timers of its
        -- tenant.
        select count(distinct due.timer_key)
        from due
        where due.due_date <= coalesce(:now::timestamptz, now()) - :ramp_after::interval
    ),
    -- During a hold no row has the rate. A null would mean no limit: the first scan after the hold would ignore the
    -- ramp.
    case when exists (select from me) then (select me.ramp_per_s from me) else 0 end,
    (select following.tenant_id from following),
    null, null, null, null, null, null, null, null, null, null, null, null, null
from done
