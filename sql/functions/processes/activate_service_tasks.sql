-- Claims service tasks of one type for a program that completes them itself.
--
-- One call returns tasks until their variables have 8 MiB in total. The next call returns the remaining tasks
-- (docs/decisions/0068-costs-of-one-tenant.md).
--
-- in:    task_type text, most integer, lease interval, tenant_id text, worker text
-- out:   task_key bigint, claim integer, instance_key bigint, token bigint, node_id text, failed_attempts integer,
--        variables jsonb, type text, process_id text, version integer, business_key text, headers jsonb, attempts_left
--        integer, claimed_until timestamptz
-- locks: the tasks that it claims; skips locked rows
-- index: deliveries_by_lane, deliveries_pkey; instances_pkey, definitions_pkey, business_keys_pkey: a probe for each
--        task
create or replace function shardclock.activate_service_tasks(
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
        raise exception 'most % is refused: take 1 to 1000', most
            using errcode = 'invalid_parameter_value', constraint = 'invalid_most';
    end if;
    if lease is null or lease < interval '1 s' or lease > interval '1 day' then
        raise exception 'lease % is refused: give a second to a day', lease
            using errcode = 'invalid_parameter_value', constraint = 'invalid_lease';
    end if;
    if length(worker) not between 1 and 100 then
        raise exception 'worker % is refused: give 1 to 100 characters', quote_literal(left(worker, 60))
            using errcode = 'invalid_parameter_value', constraint = 'invalid_worker';
    end if;
    -- During an operator's hold neither programs nor handlers get tasks.
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
                select m.timer_key
                from (
                    -- Limit the bytes. Each task has a copy of its visible variables, so a response with large
                    -- variables could have gigabytes.
                    select
                        due.timer_key,
                        sum(octet_length(due.payload::text)) over (
                            order by due.next_attempt_at, due.timer_key rows between unbounded preceding and 1 preceding
                        ) as bytes_before
                    from (
                        select f.timer_key, f.next_attempt_at, f.payload
                        from shardclock.deliveries f
                        where f.target = task_type
                            and f.tenant_id = activate_service_tasks.tenant_id
                            and f.timer_type = 'SERVICE_TASK'
                            and f.next_attempt_at <= now()
                            and (f.claimed_until is null or f.claimed_until < clock_timestamp())
                        order by f.next_attempt_at, f.timer_key + 0
                        limit most
                        for update skip locked
                    ) due
                ) m
                where coalesce(m.bytes_before, 0) < 8388608
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
    -- With this limit, Postgres makes two index probes for each task, independent of its estimates.
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

comment on function shardclock.activate_service_tasks is $$Claims service tasks of a type for a program that completes them
itself. Until the lease ends, no other program can claim these tasks.

task_type: the task type in the model; no handler of an app may have the same name
most: the limit of tasks, 1 to 1000; a call returns fewer tasks if their variables are large
lease: the duration of the claim, a second to a day
tenant_id: the tenant of the tasks
worker: the program's name for operators, 1 to 100 characters; null: none
returns: task_key and claim, which the caller needs to complete the task; instance_key, token and node_id; failed_attempts; variables, merged with the task's headers (a variable replaces a header with the same name); type; process_id and version; business_key or null; headers; attempts_left, including this attempt; claimed_until, the end of the lease
errors: 22023 for an invalid number, lease or worker
example: select task_key, claim, variables from shardclock.activate_service_tasks('order.pack', most => 5, lease => 'PT30S', worker => 'packer-3');
$$;
