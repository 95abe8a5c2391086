-- Returns how a user task ended, for a caller that has found no open task.
--
-- in:    task_key bigint, tenant_id text
-- out:   text: COMPLETED_BEFORE, CANCELED or NOT_FOUND
-- locks: nothing
-- index: task_acts_by_task, instances_pkey
create or replace function shardclock.end_of_task(task_key bigint, tenant_id text)
returns text
language plpgsql
stable
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
declare
    ended_as text;
begin
    -- Read the acts on the task, because an engine deletes the row of an ended task soon, but deletes the acts only
    -- together with the instance.
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

comment on function shardclock.end_of_task is 'Internal: Returns the state of a task that is not open.';
