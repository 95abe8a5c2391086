-- An instance's history tells who cancelled it, set its variables, resolved, moved or completed something.

create or replace function shardclock.signal_instance(
    instance_key bigint, tenant_id text, signal jsonb, token bigint default null
)
returns text
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
declare
    owner text := shardclock.tenant_of_instance(instance_key, tenant_id);
begin
    if owner is null then
        return 'NOT_FOUND';
    end if;
    perform shardclock.send_signal(instance_key, owner, signal || jsonb_build_object('by', session_user), token);
    return 'SENT';
end
$$;

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
begin
    perform shardclock.check_variables(variables);
    update shardclock.tasks t
    set completed_at = now()
    where t.task_key = complete_task.task_key and t.completed_at is null
        and (complete_task.tenant_id is null or t.tenant_id = complete_task.tenant_id)
    returning t.* into task;
    if not found then
        return 'NOT_FOUND';
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
