-- Programs that do service tasks: what they are told about a task that they take, and about one that is theirs no more;
-- how often they may fail; and who they are. Workers neither read nor write these columns.

alter table shardclock.deliveries add column worker text, add column headers jsonb;

comment on column shardclock.deliveries.worker is
    'What the program calls itself that has this service task; null: it did not say. It says nothing of a holder.';
comment on column shardclock.deliveries.headers is
    'Of a service task whose model has headers: those, which its payload has too, among the variables.';

comment on column shardclock.command_log.detail is
    'TRIGGERED: changed_at, if a client had set a new due date. CANCELED, PAUSED: reason, by; CANCELED: replaced_by. '
    'RESCHEDULED: due_date, schedule, by. SKIPPED: count (how many did not fire, from this occurrence on), policy. '
    'DELIVERED, DISCARDED, DEAD: attempt, ms (the duration of the last attempt), reason, result, by, worker (the program '
    'that did a service task). REDRIVEN: by.';

create function shardclock.attempts_left(attempts_max integer, failed_attempts integer)
returns integer
language sql
immutable
begin atomic
    -- Three, as in Camunda 8. A program may take what others have failed at more often.
    select greatest(coalesce(attempts_max, 3) - failed_attempts, 1);
end;

comment on function shardclock.attempts_left is
    'Internal: Counts the attempts that a program has at a service task, with the one under way.';

-- With another list of arguments a function is another one. The release before calls it with the first four, and reads
-- the columns that it knows.
drop function shardclock.activate_service_tasks(text, integer, interval, text);

create function shardclock.activate_service_tasks(
    task_type text,
    most integer default 10,
    lease interval default 'PT1M',
    tenant_id text default 'default',
    worker text default null
)
returns table (
    task_key bigint, claim integer, instance_key bigint, token bigint, node_id text, failed_attempts integer,
    variables jsonb, type text, process_id text, version integer, business_key text, headers jsonb,
    attempts_left integer, claimed_until timestamptz
)
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
begin
    if most is null or most not between 1 and 1000 then
        raise exception 'most % is not possible: take 1 to 1000', most using errcode = 'invalid_parameter_value';
    end if;
    if lease is null or lease < interval '1 s' or lease > interval '1 day' then
        raise exception 'lease % is not possible: give a second to a day', lease
            using errcode = 'invalid_parameter_value';
    end if;
    if length(worker) not between 1 and 100 then
        raise exception 'worker "%" is refused: give 1 to 100 characters', left(worker, 60)
            using errcode = 'invalid_parameter_value';
    end if;
    -- During an operator's hold a program gets no tasks: else it would do what handlers may not.
    if exists (select from shardclock.identity i where i.held_why is not null) then
        return;
    end if;
    return query
    with taken as (
        update shardclock.deliveries d
        set claimed_by = 0,
            claimed_until = clock_timestamp() + lease,
            next_attempt_at = clock_timestamp() + lease,
            claims = d.claims + 1,
            worker = activate_service_tasks.worker
        where d.timer_key = any (
            array(
                select f.timer_key
                from shardclock.deliveries f
                where f.target = task_type
                    and f.tenant_id = activate_service_tasks.tenant_id
                    and f.timer_type = 'SERVICE_TASK'
                    and f.next_attempt_at <= now()
                    and (f.claimed_until is null or f.claimed_until < clock_timestamp())
                order by f.next_attempt_at, f.timer_key + 0
                limit most
                for update skip locked
            )
        )
        returning
            d.timer_key, d.claims, d.process_instance_key, d.element_instance_key, d.target_element_id,
            d.failed_attempts, d.payload, d.target, d.headers, d.attempts_max, d.claimed_until
    )
    select
        t.timer_key, t.claims, t.process_instance_key, t.element_instance_key, t.target_element_id, t.failed_attempts,
        t.payload, t.target, p.process_id, p.version,
        (select b.business_key from shardclock.business_keys b where b.instance_key = t.process_instance_key),
        coalesce(t.headers, '{}'), shardclock.attempts_left(t.attempts_max, t.failed_attempts), t.claimed_until
    from taken t
    -- With a limit it is a probe of two keys for each task, whatever the planner believes about the tables' sizes.
    left join lateral (
        select i.process_id, f.version
        from shardclock.instances i
        join shardclock.definitions f on f.definition_key = i.definition_key
        where i.instance_key = t.process_instance_key
        limit 1
    ) p on true
    order by t.timer_key;
end
$$;

comment on function shardclock.activate_service_tasks is $$Takes service tasks of a type for a program that does them
itself. They are its own until the lease has run out; then anybody may take them again.

task_type: the type in the model; no handler of an app may have the same name
most: how many at most, 1 to 1000
lease: for how long, a second to a day
tenant_id: whose
worker: what the program calls itself, 1 to 100 characters, which operators see; null: it does not say
returns: task_key and claim, which an answer names; instance_key, token and node_id; failed_attempts; variables, and the task's headers among them, of one name the variable; type; process_id and version; business_key or null; headers, apart; attempts_left, with this one; claimed_until, when the lease runs out
errors: 22023 for a number, a lease or a worker that is not possible
example: select task_key, claim, variables from shardclock.activate_service_tasks('order.pack', most => 5, lease => 'PT30S', worker => 'packer-3');
$$;

-- Here and below, what claimed_by 0 has is a service task. To ask for that type, too, lets a plan that was made while the
-- table was empty read all service tasks, by the index of these.
create function shardclock.lost_service_task(task_key bigint, claim integer, tenant_id text)
returns text
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
declare
    state text;
begin
    select case
            when claim < 1 or d.timer_type <> 'SERVICE_TASK' then 'NOT_FOUND'
            when claim < d.claims then 'TAKEN'
            when claim = d.claims and d.claimed_by is null then 'RETRIED_BEFORE'
            else 'NOT_FOUND'
        end
    into state
    from shardclock.deliveries d
    where d.timer_key = task_key
        and (lost_service_task.tenant_id is null or d.tenant_id = lost_service_task.tenant_id);
    if state is not null then
        return state;
    end if;
    -- What has ended has one record of that. The end that a step of its instance makes is no attempt's.
    select case
            when l.intent = 'DELIVERED' then 'COMPLETED_BEFORE'
            when l.intent = 'DEAD' then 'DEAD_BEFORE'
            when l.detail ? 'attempt' then 'DISCARDED_BEFORE'
            else 'CANCELED'
        end
    into state
    from shardclock.command_log l
    where l.timer_key = task_key
        and l.timer_type = 'SERVICE_TASK'
        and l.intent in ('DELIVERED', 'DISCARDED', 'DEAD')
        and (lost_service_task.tenant_id is null or l.tenant_id = lost_service_task.tenant_id)
    limit 1;
    return coalesce(state, 'NOT_FOUND');
end
$$;

comment on function shardclock.lost_service_task is
    'Internal: Says what became of a service task that is not, or no longer, the caller''s under a claim.';

create or replace function shardclock.extend_service_task(
    task_key bigint, claim integer, lease interval default 'PT1M', tenant_id text default null
)
returns text
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
begin
    if lease is null or lease < interval '1 s' or lease > interval '1 day' then
        raise exception 'lease % is not possible: give a second to a day', lease
            using errcode = 'invalid_parameter_value';
    end if;
    -- A lease that has run out is extended as long as nobody else has taken the task: that would have raised its claims.
    -- Until the lease runs out the task is not due, as after activate_service_tasks.
    update shardclock.deliveries d
    set claimed_until = clock_timestamp() + lease,
        next_attempt_at = clock_timestamp() + lease
    where d.timer_key = task_key and d.claims = claim and d.claimed_by = 0
        and (extend_service_task.tenant_id is null or d.tenant_id = extend_service_task.tenant_id);
    return case
        when found then 'EXTENDED'
        else shardclock.lost_service_task(task_key, claim, tenant_id)
    end;
end
$$;

comment on function shardclock.extend_service_task is $$Says that the caller still does a service task that it has taken,
and for how long. It may say so again and again.

task_key: the task
claim: as it was taken
lease: for how long from now, a second to a day; also shorter than what was left
tenant_id: refuse a task of another tenant; null: of any
returns: EXTENDED, also of a lease that has run out if nobody else has taken the task; else as complete_service_task
errors: 22023 for a lease that is not possible
example: select shardclock.extend_service_task(42, 1, 'PT30S');
$$;

create or replace function shardclock.end_service_task(
    task_key bigint, claim integer, tenant_id text, intent text, detail jsonb, signal jsonb
)
returns text
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
declare
    task shardclock.deliveries;
begin
    delete from shardclock.deliveries d
    where d.timer_key = task_key and d.claims = claim and d.claimed_by = 0
        and (end_service_task.tenant_id is null or d.tenant_id = end_service_task.tenant_id)
    returning d.* into task;
    if not found then
        return shardclock.lost_service_task(task_key, claim, tenant_id);
    end if;
    insert into shardclock.command_log (
        timer_key, process_instance_key, element_instance_key, due_date, created_at, occurrence, intent, tenant_id,
        timer_type, target, target_element_id, detail
    )
    values (
        task.timer_key, task.process_instance_key, task.element_instance_key, task.due_date, task.created_at,
        task.occurrence, end_service_task.intent, task.tenant_id, task.timer_type, task.target, task.target_element_id,
        jsonb_strip_nulls(
            end_service_task.detail
                || jsonb_build_object(
                    'attempt', task.failed_attempts + 1, 'by', session_user, 'worker', task.worker
                )
        )
    );
    perform shardclock.send_signal(
        task.process_instance_key, task.tenant_id, end_service_task.signal, task.element_instance_key,
        task.target_element_id
    );
    return end_service_task.intent;
end
$$;

create or replace function shardclock.complete_service_task(
    task_key bigint, claim integer, variables jsonb default '{}', tenant_id text default null
)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    state text;
begin
    perform shardclock.check_variables(variables);
    state := shardclock.end_service_task(
        task_key, claim, tenant_id, 'DELIVERED', '{}', jsonb_build_object('kind', 'completed', 'variables', variables)
    );
    -- The log's word is that of all deliveries, the caller's that of all tasks.
    return case state when 'DELIVERED' then 'COMPLETED' else state end;
end
$$;

comment on function shardclock.complete_service_task is $$Completes a service task that the caller has taken; its instance
goes on.

task_key: the task
claim: as it was taken
variables: a JSON object, what the task results in
tenant_id: refuse a task of another tenant; null: of any
returns: COMPLETED; TAKEN: another has taken it since; COMPLETED_BEFORE, DISCARDED_BEFORE, DEAD_BEFORE or RETRIED_BEFORE: it was answered so already, and this answer counts for nothing; CANCELED: its instance waits for it no more; NOT_FOUND: it never was the caller's, or the log has forgotten its end
errors: 22023 for variables that are no object or have more than 1 MiB
example: select shardclock.complete_service_task(42, 1, '{"packed": true}');
$$;

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
    if retry_after is null or retry_after not between interval '0' and interval '1 year' then
        raise exception 'retry_after % is not between 0 and a year: name a shorter one, or 0 retries', retry_after
            using errcode = '22023';
    end if;
    -- Of a task that is there and has an attempt left. Whatever is not found here is not found below.
    update shardclock.deliveries d
    set claimed_by = null,
        claimed_until = null,
        worker = null,
        failed_attempts = d.failed_attempts + 1,
        -- What the caller says counts until somebody says something else, also for a handler.
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

comment on function shardclock.fail_service_task is $$Says that a service task that the caller has taken could not be done.

task_key: the task
claim: as it was taken
reason: why, in a sentence
retries: how many further attempts there may be, which stands until it is said again; 0: none, so its instance has an incident; null: as many as are left of the model's retries, or of three attempts if it has none
retry_after: when the next attempt may be made, within a year
tenant_id: refuse a task of another tenant; null: of any
returns: RETRIED; DEAD if there is no further attempt; else as complete_service_task
errors: 22023 if retry_after is negative, or more than a year
example: select shardclock.fail_service_task(42, 1, 'no box is left', retries => 2, retry_after => 'PT5M');
$$;

comment on function shardclock.throw_service_task_error is $$Ends a service task with an error of BPMN. An event in the
model may catch the error by its code. The caller must have taken the task.

task_key: the task
claim: as it was taken
code: the error's code, as in the model
reason: why, in a sentence
variables: a JSON object, which the event gets
tenant_id: refuse a task of another tenant; null: of any
returns: DISCARDED; else as complete_service_task
errors: 22023 for a code that is none, and as for complete_service_task
example: select shardclock.throw_service_task_error(42, 1, 'OUT_OF_STOCK');
$$;
