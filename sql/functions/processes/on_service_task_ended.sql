-- Returns the signal that tells an instance how the delivery of its service task ended.
--
-- The function reads no row, so Postgres inlines it into the statement that settles deliveries.
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
                -- The answer of an endpoint, such as 200, is not a variable of the process.
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
    'Internal: Returns the signal that informs an instance of the end of its service task''s delivery.';
