-- The columns of a claim: its numbers, and a leased timer.
clock_timestamp() as server_time,
(select done.timers from done) as fired,
(select done.deliveries from done) as deliveries,
-- include: lags_as_json.sql
(select count(*) from due) >= :batch
    or exists (select from due group by due.place, due.share having count(*) >= due.share) as saturated,
(
    -- A timer may be found twice: among the oldest of its slot, and among the oldest of its tenant.
    select count(distinct due.timer_key)
    from due
    where due.due_date <= coalesce(:now::timestamptz, now()) - :ramp_after::interval
) as left_by_outage,
(select me.ramp_per_s from me) as ramp_per_s,
c.timer_key, c.due_date, c.schedule, c.zone, c.missed, c.anchor, c.anchor_occurrence, c.occurrence, c.repetitions,
c.starts_job, c.tenant_id, c.version
