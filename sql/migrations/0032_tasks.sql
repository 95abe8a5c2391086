-- Who completes a task or cancels an instance a second time is told so: it is another answer than to a wrong key.

create or replace function shardclock.complete_task(
    task_key bigint, variables jsonb default '{}', tenant_id text default null
)
returns text
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
declare
    task shardclock.tasks;
    ended_as text;
begin
    perform shardclock.check_variables(variables);
    update shardclock.tasks t
    set completed_at = now()
    where t.task_key = complete_task.task_key and t.completed_at is null
        and (complete_task.tenant_id is null or t.tenant_id = complete_task.tenant_id)
    returning t.* into task;
    if not found then
        -- The task's row goes soon after its end, and its acts stay as long as its instance.
        select case a.act when 'COMPLETED' then 'COMPLETED_BEFORE' else a.act end into ended_as
        from shardclock.task_acts a
        where a.task_key = complete_task.task_key and a.act in ('COMPLETED', 'CANCELED')
            and (
                complete_task.tenant_id is null
                or complete_task.tenant_id = (
                    select i.tenant_id from shardclock.instances i where i.instance_key = a.instance_key
                )
            )
        order by a.act_id desc
        limit 1;
        return coalesce(ended_as, 'NOT_FOUND');
    end if;
    perform shardclock.send_signal(
        task.instance_key, task.tenant_id,
        jsonb_build_object(
            'kind', 'completed', 'variables', variables, 'by', coalesce(task.assignee, session_user::text)
        ),
        task.token
    );
    insert into shardclock.task_acts (task_key, instance_key, act, who, detail)
    select
        task.task_key, task.instance_key, 'COMPLETED', session_user,
        case when task.assignee is null then '{}' else jsonb_build_object('assignee', task.assignee) end;
    return 'COMPLETED';
end
$$;

comment on function shardclock.complete_task is $$Completes a task, in the caller's transaction: its instance goes on once
that is committed.

task_key: the task
variables: a JSON object, what the task results in
tenant_id: refuse a task of another tenant; null: of any
returns: COMPLETED; COMPLETED_BEFORE: it was completed already, and these variables count for nothing; CANCELED: its instance waits for it no more; NOT_FOUND: it never was, or its instance is forgotten
errors: 22023 for variables that are no object or have more than 1 MiB
example: select shardclock.complete_task(42, '{"approved": true}');
$$;

create or replace function shardclock.cancel_instance(instance_key bigint, tenant_id text default null)
returns text
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
declare
    ended_as text;
begin
    if shardclock.signal_instance(instance_key, tenant_id, '{"kind": "cancel"}') = 'SENT' then
        return 'SENT';
    end if;
    select i.outcome into ended_as
    from shardclock.instances i
    where i.instance_key = cancel_instance.instance_key
        and (cancel_instance.tenant_id is null or i.tenant_id = cancel_instance.tenant_id);
    return coalesce(ended_as, 'NOT_FOUND');
end
$$;

comment on function shardclock.cancel_instance is $$Cancels an instance of a process, in the caller's transaction: an
engine terminates its tokens, and its timers, jobs, tasks and called processes with them.

instance_key: the instance
tenant_id: refuse an instance of another tenant; null: of any
returns: SENT; CANCELED: it was cancelled already; COMPLETED or ERROR: too late, it has ended so; NOT_FOUND: it never was, or is forgotten
errors: none
example: select shardclock.cancel_instance(42);
$$;
