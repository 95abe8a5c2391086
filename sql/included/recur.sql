-- Writes the next occurrences of the schedules in `recurring`.
recurred as (
    insert into shardclock.timers (
        process_instance_key, element_instance_key, due_date, anchor, anchor_occurrence, occurrence, repetitions,
        tenant_id, timer_type, target, zone, missed, target_element_id, name, schedule, payload, changed_at, period_us,
        missed_once
    )
    select
        r.process_instance_key, r.element_instance_key, r.next_due_date, r.next_anchor, r.next_anchor_occurrence,
        r.next_occurrence,
        -- Skipped occurrences don't count as repetitions (timers.schedule.last_number). A run on request has already
        -- been counted.
        case
            when r.repetitions = -1 then -1
            when r.kept_due_date is not null then r.repetitions
            else least(r.repetitions + r.skipped, 2147483647)
        end,
        r.tenant_id, r.timer_type, r.target, r.zone, r.missed, r.target_element_id, r.name, r.schedule, r.payload,
        -- For an occurrence that became due during a pause, the lag is measured from the resume.
        case when l.since > r.next_due_date then l.since end,
        case when r.missed_once is null or l.since <= r.next_due_date then r.next_period_us end,
        -- A client's choice at a resume applies to the occurrences that were due before the resume.
        case when l.since > r.next_due_date then r.missed_once end
    from recurring r
    cross join lateral (select shardclock.late_since(r.due_date, r.created_at, r.changed_at, r.occurrence)) as l (since)
    where r.next_due_date is not null
),
