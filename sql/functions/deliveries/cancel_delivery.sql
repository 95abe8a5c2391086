-- Ends a waiting delivery for an operator, and records the end in the log.
--
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
    perform shardclock.checked_text('reason', reason);
    if state <> 'WAITING' then
        return state;
    end if;
    select substr(d.target, 5) into job
    from shardclock.deliveries d
    where d.timer_key = cancel_delivery.timer_key and d.target like 'job:%';
    if found then
        -- A start of a job can't be cancelled here, because the end of the run plans the job's next start.
        raise exception 'the delivery of timer % is a start of job %: disable the job (shardclock jobs disable)',
            cancel_delivery.timer_key, quote_literal(job)
            using errcode = 'object_not_in_prerequisite_state', constraint = 'delivery_of_job';
    end if;
    select coalesce(d.process_instance_key, d.timer_key) into instance
    from shardclock.deliveries d
    where d.timer_key = cancel_delivery.timer_key
        and (d.target = 'process:instance' or d.timer_type = 'SERVICE_TASK');
    if found then
        -- A delivery of a process instance can't be cancelled here, because a token of the instance waits for it.
        raise exception 'the delivery of timer % belongs to instance %: cancel the instance (shardclock processes cancel), or move '
            'its token', cancel_delivery.timer_key, instance
            using errcode = 'object_not_in_prerequisite_state', constraint = 'delivery_of_instance';
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
        jsonb_strip_nulls(
            jsonb_build_object(
                'by', session_user, 'reason', cancel_delivery.reason,
                'key_prefix', nullif(left(current_setting('shardclock.key_prefix', true), 60), '')
            )
        )
    from gone g;
    return 'DISCARDED';
end
$$;

comment on function shardclock.cancel_delivery is $$Ends a waiting delivery, so that no worker calls its target; the log record of the end names the caller. A delivery that a worker or a program has claimed stays unchanged.

timer_key: the timer that fired
reason: the reason, for the record
returns: DISCARDED (by this call or earlier); IN_HAND: a worker is calling the target, or a program has claimed the service task; DEAD: the delivery was given up; DELIVERED: the delivery has ended; UNKNOWN: the timer has no delivery
errors: 22023 for a reason of more than 1,000 characters; 55000 for a start of a job, and for a delivery for which an instance of a process waits; 42501 without a right on shardclock.deliveries
example: select shardclock.cancel_delivery(42, reason => 'refunded by hand');
$$;
