-- Records a failed attempt of a claimed service task, and plans the next attempt; ends the task if no attempt is left.
--
-- in:    task_key bigint, claim integer, reason text, retries integer, retry_after interval, tenant_id text
-- out:   text
-- locks: the task, and the new signal
-- index: deliveries_pkey; command_log_by_timer_key for an ended task
create or replace function shardclock.fail_service_task(
    task_key bigint,
    claim integer,
    reason text,
    retries integer default null,
    retry_after interval default '0',
    tenant_id text default null
)
returns text
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
begin
    perform shardclock.checked_text('reason', reason);
    if retry_after is null or retry_after not between interval '0' and interval '1 year' then
        raise exception 'retry_after % is not between 0 and a year: name a shorter one, or 0 retries', retry_after
            using errcode = 'invalid_parameter_value', constraint = 'invalid_retry_after';
    end if;
    -- If an attempt is left, this update retries the task. If none is left, the call below ends the task, and checks
    -- the claim and the tenant.
    update shardclock.deliveries d
    set claimed_by = null,
        claimed_until = null,
        worker = null,
        failed_attempts = d.failed_attempts + 1,
        -- The caller's `retries` apply until another call sets them, even if a handler gets the task.
        attempts_max = case
            when retries is null then d.attempts_max
            else least(d.failed_attempts + 1 + retries::bigint, 2147483647)::integer
        end,
        next_attempt_at = now() + retry_after,
        failures = jsonb_set(
            shardclock.with_failure(d.failures, d.failed_attempts + 1, reason, 0, now()), '{-1, worker}',
            coalesce(to_jsonb(d.worker), 'null')
        )
    where d.timer_key = task_key and d.claims = claim and d.claimed_by = 0
        and (fail_service_task.tenant_id is null or d.tenant_id = fail_service_task.tenant_id)
        and coalesce(retries, shardclock.attempts_left(d.attempts_max, d.failed_attempts) - 1) > 0;
    if found then
        return 'RETRIED';
    end if;
    return shardclock.end_service_task(
        task_key, claim, tenant_id, 'DEAD', jsonb_build_object('reason', reason),
        jsonb_build_object('kind', 'failed', 'reason', coalesce(reason, 'no reason was given'))
    );
end
$$;

comment on function shardclock.fail_service_task is $$Reports the failure of a service task that the caller has claimed.

task_key: the task
claim: the claim's number
reason: the reason, in a sentence
retries: the number of further attempts, valid until another call gives a number; 0: no further attempt, so the instance gets an incident; null: the model's number of attempts applies, or three attempts if the model sets none
retry_after: the time until the next attempt, within a year
tenant_id: refuse a task of another tenant; null: any tenant
returns: RETRIED; DEAD if there is no further attempt; otherwise a result of complete_service_task
errors: 22023 if retry_after is negative, or more than a year, and for a reason of more than 1,000 characters
example: select shardclock.fail_service_task(42, 1, 'no box is left', retries => 2, retry_after => 'PT5M');
$$;
