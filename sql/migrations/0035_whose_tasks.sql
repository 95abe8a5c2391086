-- Who completes a task may say who that is: then no other person's task is completed, and history names the right one. Who
-- claims a task that has ended is told how.

create function shardclock.end_of_task(task_key bigint, tenant_id text)
returns text
language plpgsql
stable
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
declare
    ended_as text;
begin
    -- The task's row goes soon after its end, and its acts stay as long as its instance.
    select case a.act when 'COMPLETED' then 'COMPLETED_BEFORE' else a.act end into ended_as
    from shardclock.task_acts a
    where a.task_key = end_of_task.task_key and a.act in ('COMPLETED', 'CANCELED')
        and (
            end_of_task.tenant_id is null
            or end_of_task.tenant_id = (
                select i.tenant_id from shardclock.instances i where i.instance_key = a.instance_key
            )
        )
    order by a.act_id desc
    limit 1;
    return coalesce(ended_as, 'NOT_FOUND');
end
$$;

comment on function shardclock.end_of_task is 'Internal: Tells how a task that is not open has ended.';

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

-- With another list of arguments a function is another one. The release before calls it with the first three, and goes on.
drop function shardclock.complete_task(bigint, jsonb, text);

create function shardclock.complete_task(
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
assignee: who completes it, and is recorded as such: so is one that nobody has; another's is refused; null: whoever has it is recorded, or else the role
returns: COMPLETED; TAKEN: another person has it; COMPLETED_BEFORE: it was completed already, and these variables count for nothing; CANCELED: its instance waits for it no more; NOT_FOUND: it never was, or its instance is forgotten
errors: 22023 for variables that are no object or have more than 1 MiB
example: select shardclock.complete_task(42, '{"approved": true}', assignee => 'ann');
$$;

-- What a person has is found by an index. A task that nobody has is not in it, so it costs an engine's step nothing
-- (docs/decisions/0063-task-lists-go-in-steps.md). The person comes first: an operator asks without a tenant, too.
create index tasks_by_assignee on shardclock.tasks (assignee, tenant_id, task_key) where assignee is not null;
