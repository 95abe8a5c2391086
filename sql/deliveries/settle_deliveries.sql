-- Settles attempts: deletes and records the deliveries that have ended, and sets the next attempt of the others.
--
-- The end of a service task's delivery becomes a signal to the task's instance.
--
-- in:    :holder bigint: the worker
--        :timer_keys bigint[]: each once with the same claims; then one array for each field of these deliveries:
--        :claims integer[]: the number of claims at the worker's claim
--        :duration_ms integer[]
--        then arrays that may be empty:
--        :intents text[]: DELIVERED, DISCARDED or DEAD; null: another attempt is due; empty: all are DELIVERED
--        :fails boolean[]: true: the attempt has failed; false: it was given back; null: its outcome is unknown; empty:
--          no attempt has failed
--        :delays interval[]: the time until the next attempt; null: the due time stays
--        :reasons text[]: null: none
--        :results jsonb[]: the handler's result; null: none. After a BPMN error: the error_code and the variables
--        :leaves_locked boolean: true: skip rows that other transactions have locked; false: fail if there is one
--        :now timestamptz or null (Postgres's clock)
-- out:   a row for each delivery that this call did not settle:
--        timer_key bigint, claims integer
--        is_locked boolean: true: its row is locked, call again; false: it has ended, or another worker has claimed it
-- locks: the settled rows, until the statement ends; skips locked rows, or, without :leaves_locked, gives up after 0.1
--        s (55P03) and changes nothing
-- index: deliveries_pkey, one probe for each row; with :leaves_locked a second probe, and a third one for each row that
--        it did not settle
with patience as materialized (
    -- Sets the lock timeout of this statement: Postgres evaluates this expression before the statement locks a row.
    select set_config('lock_timeout', '100ms', true)
),
free as materialized (
    -- Lock the rows only for a caller with :leaves_locked: a lock costs time and write-ahead log
    -- (docs/decisions/0021-no-lock-before-a-delete.md).
    select d.timer_key
    from shardclock.deliveries d
    where :leaves_locked::boolean and d.timer_key = any (:timer_keys::bigint[]) and d.claimed_by = :holder
    for update of d skip locked
),
attempt as materialized (
    select
        a.timer_key, a.claims, a.duration_ms, a.delay, a.reason, a.result,
        case when cardinality(:fails) = 0 then false else a.fails end as fails,
        case when cardinality(:intents) = 0 then 'DELIVERED' else a.intent end as intent,
        not :leaves_locked or a.timer_key in (select f.timer_key from free f) as is_free
    from unnest(
        :timer_keys, :claims::integer[], :duration_ms::integer[], :intents::text[], :fails::boolean[],
        :delays::interval[], :reasons::text[], :results::jsonb[]
    ) as a (timer_key, claims, duration_ms, intent, fails, delay, reason, result)
    cross join patience
),
gone as (
    -- The fence (holder and claims) is a condition of the delete itself. The array of keys forces the planner to probe
    -- the index for each key, as in fire_due.
    delete from shardclock.deliveries d
    using attempt a
    where d.timer_key = any (array(select a.timer_key from attempt a where a.intent is not null and a.is_free))
        and a.timer_key = d.timer_key
        and a.claims = d.claims
        -- If the call contains an older and a newer claim of the same delivery, only the outcome of the newer claim is
        -- valid.
        and a.intent is not null
        and d.claimed_by = :holder::bigint
    returning
        d.timer_key, d.claims, d.process_instance_key, d.element_instance_key, d.due_date, d.created_at, d.fired_at,
        d.occurrence, d.slot, d.tenant_id, d.timer_type, d.target, d.target_element_id, d.name, d.schedule,
        d.failed_attempts, a.fails, a.intent, a.reason, a.result, a.duration_ms,
        case when a.intent = 'DEAD' then d.payload end as payload,
        case when a.intent = 'DEAD' then d.failures end as failures
),
recorded as (
    insert into shardclock.command_log (
        timer_key, process_instance_key, element_instance_key, due_date, created_at, occurrence, holder,
        intent, tenant_id, timer_type, target, target_element_id, name, schedule, detail
    )
    select
        g.timer_key, g.process_instance_key, g.element_instance_key, g.due_date, g.created_at, g.occurrence, :holder,
        g.intent, g.tenant_id, g.timer_type, g.target, g.target_element_id, g.name, g.schedule,
        -- A fast path for the most frequent record: a success without a result.
        case
            when g.reason is null and g.result is null
                then jsonb_build_object('attempt', g.failed_attempts + 1, 'ms', g.duration_ms)
            else jsonb_strip_nulls(
                jsonb_build_object('attempt', g.failed_attempts + 1, 'ms', g.duration_ms, 'reason', g.reason)
            ) || case when g.result is null then '{}' else jsonb_build_object('result', g.result) end
        end
    from gone g
),
buried as (
    insert into shardclock.dead_letters (
        timer_key, process_instance_key, element_instance_key, due_date, created_at, fired_at, occurrence, claims,
        failed_attempts, slot, tenant_id, timer_type, target, target_element_id, name, schedule, reason, payload,
        failures
    )
    select
        g.timer_key, g.process_instance_key, g.element_instance_key, g.due_date, g.created_at, g.fired_at, g.occurrence,
        g.claims, g.failed_attempts + g.fails::integer, g.slot, g.tenant_id, g.timer_type, g.target,
        g.target_element_id, g.name, g.schedule, coalesce(g.reason, 'no reason was given'), g.payload,
        shardclock.with_failure(g.failures, g.failed_attempts + 1, g.reason, :holder, coalesce(:now::timestamptz,
        now()))
    from gone g
    -- A given-up service task causes an incident of its instance.
    where g.intent = 'DEAD' and g.timer_type <> 'SERVICE_TASK'
),
signaled as (
    -- After the end of a service task's delivery, this signal lets the instance continue.
    insert into shardclock.deliveries (
        timer_key, process_instance_key, element_instance_key, next_attempt_at, due_date, created_at, occurrence, slot,
        tenant_id, timer_type, target, target_element_id, payload
    )
    select
        nextval('shardclock.timer_key_seq'), g.process_instance_key, g.element_instance_key, now(), now(), now(), 1,
        g.process_instance_key % 840, g.tenant_id, 'USER', 'process:instance', g.target_element_id,
        shardclock.on_service_task_ended(g.intent, g.target, g.reason, g.result)
    from gone g
    where g.timer_type = 'SERVICE_TASK'
),
again as (
    update shardclock.deliveries d
    set claimed_by = null,
        claimed_until = null,
        failed_attempts = d.failed_attempts + coalesce(a.fails, false)::integer,
        given_back = d.given_back + (a.fails is false)::integer,
        next_attempt_at = coalesce(coalesce(:now::timestamptz, now()) + a.delay, d.next_attempt_at),
        failures = case
            when a.reason is null then d.failures
            else shardclock.with_failure(
                d.failures, d.failed_attempts + 1, a.reason, :holder, coalesce(:now::timestamptz, now())
            )
        end
    from attempt a
    where d.timer_key = any (array(select a.timer_key from attempt a where a.intent is null and a.is_free))
        and a.timer_key = d.timer_key
        and a.claims = d.claims
        -- If the call contains an older and a newer claim of the same delivery, the older claim failed, and the newer
        -- claim ended the delivery.
        and a.intent is null
        and d.claimed_by = :holder
    returning d.timer_key, d.claims
),
unsettled as materialized (
    select a.timer_key, a.claims
    from attempt a
    where not exists (
        select
        from (select g.timer_key, g.claims from gone g union all select again.timer_key, again.claims from again) s
        where s.timer_key = a.timer_key and s.claims = a.claims
    )
)
select
    u.timer_key, u.claims,
    :leaves_locked
        and (
            (u.timer_key, u.claims) in (
                select d.timer_key, d.claims
                from shardclock.deliveries d
                where d.timer_key = any (array(select u.timer_key from unsettled u)) and d.claimed_by = :holder
            )
        ) is true as is_locked
from unsettled u
