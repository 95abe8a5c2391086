-- Assigns a user task to a person, or removes its assignee.
--
-- in:    task_key bigint, assignee text, tenant_id text
-- out:   text
-- locks: the task
-- index: tasks_pkey; task_acts_by_task for an ended task
create or replace function shardclock.claim_task(
    task_key bigint, assignee text, tenant_id text default null
)
returns text
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
declare
    before text;
begin
    if assignee is not null then
        perform shardclock.check_text('assignee', assignee, 200);
    end if;
    select t.assignee into before
    from shardclock.tasks t
    where t.task_key = claim_task.task_key and t.completed_at is null
        and (claim_task.tenant_id is null or t.tenant_id = claim_task.tenant_id)
    for update;
    if not found then
        return shardclock.end_of_task(task_key, tenant_id);
    end if;
    if before <> claim_task.assignee then
        return 'TAKEN';
    end if;
    update shardclock.tasks t set assignee = claim_task.assignee where t.task_key = claim_task.task_key;
    insert into shardclock.task_acts (task_key, instance_key, act, actor, detail)
    select t.task_key, t.instance_key, 'ASSIGNED', session_user, jsonb_build_object('assignee', t.assignee)
    from shardclock.tasks t
    where t.task_key = claim_task.task_key;
    return case when assignee is null then 'CREATED' else 'ASSIGNED' end;
end
$$;

comment on function shardclock.claim_task is $$Assigns a task to a person, unless another person has it; or removes the
assignee of a task.

task_key: the task
assignee: the person; null: remove the assignee
tenant_id: refuse a task of another tenant; null: any tenant
returns: ASSIGNED; CREATED: the task has no assignee now; TAKEN: another person has the task; COMPLETED_BEFORE: the task was completed before; CANCELED: its instance no longer waits for the task; NOT_FOUND: the task is unknown, or its instance was deleted
errors: 22023 for an assignee that does not have 1 to 200 characters
example: select shardclock.claim_task(42, 'ann');
$$;
