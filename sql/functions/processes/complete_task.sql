-- Completes a user task; the instance continues after the commit.
--
-- in:    task_key bigint, variables jsonb, tenant_id text, assignee text
-- out:   text
-- locks: the task, and the new signal
-- index: tasks_pkey; task_acts_by_task for an ended task
create or replace function shardclock.complete_task(
    task_key bigint, variables jsonb default '{}', tenant_id text default null, assignee text default null
)
returns text
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
declare
    task shardclock.tasks;
    present_assignee text;
begin
    if assignee is not null then
        perform shardclock.check_text('assignee', assignee, 200);
    end if;
    perform shardclock.check_variables(variables);
    loop
        update shardclock.tasks t
        set completed_at = now()
        where t.task_key = complete_task.task_key and t.completed_at is null
            and (complete_task.tenant_id is null or t.tenant_id = complete_task.tenant_id)
            and (t.assignee <> complete_task.assignee) is not true
        returning t.* into task;
        exit when found;
        select t.assignee into present_assignee
        from shardclock.tasks t
        where t.task_key = complete_task.task_key and t.completed_at is null
            and (complete_task.tenant_id is null or t.tenant_id = complete_task.tenant_id);
        if not found then
            return shardclock.end_of_task(task_key, tenant_id);
        elsif present_assignee <> complete_task.assignee then
            return 'TAKEN';
        end if;
        -- The former assignee released the task after the snapshot of the update, so try the update again.
    end loop;
    -- The update does not change the assignee. If the token has stopped, the completion has no effect, and the task is
    -- open again with the same assignee.
    present_assignee := coalesce(task.assignee, complete_task.assignee);
    perform shardclock.send_signal(
        task.instance_key, task.tenant_id,
        jsonb_build_object(
            'kind', 'completed', 'variables', variables, 'by', coalesce(present_assignee, session_user::text)
        ),
        task.token
    );
    insert into shardclock.task_acts (task_key, instance_key, act, actor, detail)
    values (
        task.task_key, task.instance_key, 'COMPLETED', session_user,
        case when present_assignee is null then '{}' else jsonb_build_object('assignee', present_assignee) end
    );
    return 'COMPLETED';
end
$$;

comment on function shardclock.complete_task is $$Completes a task, in the caller's transaction. The task's instance
continues after the commit.

task_key: the task
variables: a JSON object, the results of the task
tenant_id: refuse a task of another tenant; null: any tenant
assignee: the person that the record names; the call refuses a task of another person; null: the record names the current assignee, or the role if there is no assignee
returns: COMPLETED; TAKEN: another person has the task; COMPLETED_BEFORE: the task was completed before, and these variables have no effect; CANCELED: the instance no longer waits for the task; NOT_FOUND: the task is unknown, or its instance was deleted
errors: 22023 for an assignee that does not have 1 to 200 characters, and for variables that are not an object or have more than 1 MiB
example: select shardclock.complete_task(42, '{"approved": true}', assignee => 'ann');
$$;
