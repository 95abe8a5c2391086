-- A worker calls this for each job of a service task that has ended: the one place where a delivery's end becomes a
-- signal of BPMN. It reads no row, so that Postgres inlines it into the statement that settles.
--
-- in:    intent text, target text, reason text, result jsonb
-- out:   jsonb: the signal to the instance; `intent` is DELIVERED, DISCARDED or DEAD
-- locks: nothing
-- index: none
create or replace function shardclock.on_service_task_ended(intent text, target text, reason text, result jsonb)
returns jsonb
language sql
stable
begin atomic
    select case
        when intent = 'DELIVERED'
            then jsonb_build_object(
                'kind', 'completed',
                'variables',
                -- That an endpoint answered with 200 is no variable of a process.
                case when jsonb_typeof(result) = 'object' and target not like 'webhook:%' then result else '{}' end
            )
        when intent = 'DISCARDED' and result ? 'error_code'
            then jsonb_build_object(
                'kind', 'error', 'code', result ->> 'error_code', 'reason', reason,
                'variables', coalesce(result -> 'variables', '{}')
            )
        else jsonb_build_object('kind', 'failed', 'reason', coalesce(reason, 'no reason was given'))
    end;
end;

comment on function shardclock.on_service_task_ended is
    'Internal: Returns the signal by which an instance learns how the job of its service task has ended.';
