-- The columns of a leased timer `t`. The choice of a client at a resume replaces the schedule's rule for occurrences
-- that were due before the resume; `missed_before` is the moment of the resume.
t.timer_key, t.due_date, t.schedule, coalesce(t.zone, 'UTC') as zone,
coalesce(case when t.due_date < t.changed_at then t.missed_once end, t.missed, 'fire_once') as missed,
case when t.due_date < t.changed_at and t.missed_once is not null then t.changed_at end as missed_before,
t.anchor, t.anchor_occurrence, t.occurrence, t.repetitions,
t.target like 'job:%' as starts_job,
case when t.schedule is not null then t.tenant_id end as tenant_id,
t.xmin as version
