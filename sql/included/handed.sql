-- Returns the handed-over deliveries: the columns of a worker's claim, and the worker.
(
    select
        array_agg(
            (
                h.timer_key, h.process_instance_key, h.element_instance_key, h.due_date, h.fired_at, h.next_attempt_at,
                h.redriven_at, h.occurrence, h.claims, h.failed_attempts, h.given_back, h.tenant_id, h.timer_type,
                h.target, h.target_element_id, h.name, h.schedule, h.payload, h.attempts_max, h.claimed_by
            )
            order by h.due_date, h.timer_key
        )
    from handed h
) as handed,
