-- in:    task_key bigint, assignee text, tenant_id text
-- out:   text
-- locks: the task
-- index: tasks_pkey; of a task that has ended task_acts_by_task
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
    insert into shardclock.task_acts (task_key, instance_key, act, who, detail)
    select t.task_key, t.instance_key, 'ASSIGNED', session_user, jsonb_build_object('assignee', t.assignee)
    from shardclock.tasks t
    where t.task_key = claim_task.task_key;
    return case when assignee is null then 'CREATED' else 'ASSIGNED' end;
end
$$;

comment on function shardclock.claim_task is $$Gives a task to a person, unless another has it; or takes it from whoever
has it.

task_key: the task
assignee: the person; null: it is given back, and nobody has it
tenant_id: refuse a task of another tenant; null: of any
returns: ASSIGNED, or CREATED if it was given back; TAKEN: another person has it; COMPLETED_BEFORE: it was completed already; CANCELED: its instance waits for it no more; NOT_FOUND: it never was, or its instance is forgotten
errors: none
example: select shardclock.claim_task(42, 'ann');
$$;
