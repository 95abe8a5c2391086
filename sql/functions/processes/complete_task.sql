-- in:    task_key bigint, variables jsonb, tenant_id text, assignee text
-- out:   text
-- locks: the task, and the new signal
-- index: tasks_pkey; of a task that has ended task_acts_by_task
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
    whose text;
begin
    perform shardclock.check_variables(variables);
    loop
        update shardclock.tasks t
        set completed_at = now()
        where t.task_key = complete_task.task_key and t.completed_at is null
            and (complete_task.tenant_id is null or t.tenant_id = complete_task.tenant_id)
            and (t.assignee <> complete_task.assignee) is not true
        returning t.* into task;
        exit when found;
        select t.assignee into whose
        from shardclock.tasks t
        where t.task_key = complete_task.task_key and t.completed_at is null
            and (complete_task.tenant_id is null or t.tenant_id = complete_task.tenant_id);
        if not found then
            return shardclock.end_of_task(task_key, tenant_id);
        elsif whose <> complete_task.assignee then
            return 'TAKEN';
        end if;
        -- Who had it has given it back since the update looked.
    end loop;
    -- Not the task's own: if it was completed in vain, because its token had stopped, it is open again, and nobody's.
    whose := coalesce(task.assignee, complete_task.assignee);
    perform shardclock.send_signal(
        task.instance_key, task.tenant_id,
        jsonb_build_object('kind', 'completed', 'variables', variables, 'by', coalesce(whose, session_user::text)),
        task.token
    );
    insert into shardclock.task_acts (task_key, instance_key, act, who, detail)
    values (
        task.task_key, task.instance_key, 'COMPLETED', session_user,
        case when whose is null then '{}' else jsonb_build_object('assignee', whose) end
    );
    return 'COMPLETED';
end
$$;

comment on function shardclock.complete_task is $$Completes a task, in the caller's transaction: its instance goes on once
that is committed.

task_key: the task
variables: a JSON object, what the task results in
tenant_id: refuse a task of another tenant; null: of any
assignee: the person who completes the task, as recorded; a task of another person is refused; null: its present assignee, else the role
returns: COMPLETED; TAKEN: another person has it; COMPLETED_BEFORE: it was completed already, and these variables count for nothing; CANCELED: its instance waits for it no more; NOT_FOUND: it never was, or its instance is forgotten
errors: 22023 for variables that are no object or have more than 1 MiB
example: select shardclock.complete_task(42, '{"approved": true}', assignee => 'ann');
$$;
