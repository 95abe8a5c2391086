-- Claims the deliveries in `found`, and records the begins of the runs in `marked`.
claimed as (
    update shardclock.deliveries d
    set claimed_by = :holder, claimed_until = coalesce(:now::timestamptz, clock_timestamp()) + :lease::interval,
        claims = d.claims + 1
    where d.timer_key = any (array(select f.timer_key from found f))
    returning d.*
),
begun as (
    insert into shardclock.command_log (
        timer_key, process_instance_key, element_instance_key, due_date, created_at, occurrence, holder,
        intent, tenant_id, timer_type, target, target_element_id, name, schedule, detail
    )
    select
        c.timer_key, c.process_instance_key, c.element_instance_key, c.due_date, c.created_at, c.occurrence, :holder,
        'STARTING', c.tenant_id, c.timer_type, c.target, c.target_element_id, c.name, c.schedule,
        jsonb_build_object('run', c.timer_key || '.' || c.claims, 'attempt', m.run_attempt)
    from marked m
    join claimed c on c.timer_key = m.run_timer_key
),
kept as (
    insert into shardclock.job_runs (timer_key, claims, job, attempt, scheduled_at, started_at, holder)
    select m.run_timer_key, m.run_claims, m.name, m.run_attempt, c.due_date, m.run_started_at, :holder
    from marked m
    join claimed c on c.timer_key = m.run_timer_key
    -- After a failover two timers may have the same key. The run of the second timer gets no row, but the run must
    -- begin.
    on conflict do nothing
),
