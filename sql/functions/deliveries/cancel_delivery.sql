-- in:    timer_key bigint, reason text
-- out:   text
-- locks: the delivery, until the transaction ends; waits for another transaction that has locked it
-- index: deliveries_pkey, dead_letters_pkey, command_log_by_timer_key
create or replace function shardclock.cancel_delivery(timer_key bigint, reason text default null)
returns text
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
declare
    state text := shardclock.lock_delivery(cancel_delivery.timer_key);
    job text;
    instance bigint;
begin
    if state <> 'WAITING' then
        return state;
    end if;
    select substr(d.target, 5) into job
    from shardclock.deliveries d
    where d.timer_key = cancel_delivery.timer_key and d.target like 'job:%';
    if found then
        -- The job's row knows of this start, and the end of a run plans the next one.
        raise exception 'the delivery of timer % is a start of job "%": disable the job (shardclock jobs disable)',
            cancel_delivery.timer_key, job
            using errcode = 'object_not_in_prerequisite_state';
    end if;
    select coalesce(d.process_instance_key, d.timer_key) into instance
    from shardclock.deliveries d
    where d.timer_key = cancel_delivery.timer_key
        and (d.target = 'process:instance' or d.timer_type = 'SERVICE_TASK');
    if found then
        -- A token waits for it.
        raise exception 'the delivery of timer % belongs to instance %: cancel that (shardclock processes cancel), or move its token',
            cancel_delivery.timer_key, instance
            using errcode = 'object_not_in_prerequisite_state';
    end if;
    with gone as (
        delete from shardclock.deliveries d
        where d.timer_key = cancel_delivery.timer_key
        returning d.*
    )
    insert into shardclock.command_log (
        timer_key, process_instance_key, element_instance_key, due_date, created_at, occurrence, intent, tenant_id,
        timer_type, target, target_element_id, name, schedule, detail
    )
    select
        g.timer_key, g.process_instance_key, g.element_instance_key, g.due_date, g.created_at, g.occurrence,
        'DISCARDED', g.tenant_id, g.timer_type, g.target, g.target_element_id, g.name, g.schedule,
        jsonb_strip_nulls(jsonb_build_object('by', session_user, 'reason', cancel_delivery.reason))
    from gone g;
    return 'DISCARDED';
end
$$;

comment on function shardclock.cancel_delivery is $$Ends a delivery that waits: its target is not called any more, and its
record says who did it. One that a worker or a program has in hand is left as it is.

timer_key: the timer that fired
reason: why, for the record
returns: DISCARDED (also if it was before); IN_HAND: a worker is calling the target, or a program does the service task; DEAD: it was given up; DELIVERED: it has ended; UNKNOWN: it has no delivery
errors: 55000 for a start of a job, and for what an instance of a process waits for; 42501 without a right on shardclock.deliveries
example: select shardclock.cancel_delivery(42, reason => 'refunded by hand');
$$;
