-- Ends a service task with a BPMN error, which the model can catch.
--
-- in:    task_key bigint, claim integer, code text, reason text, variables jsonb, tenant_id text
-- out:   text
-- locks: the task, and the new signal
-- index: deliveries_pkey; command_log_by_timer_key for an ended task
create or replace function shardclock.throw_service_task_error(
    task_key bigint, claim integer, code text, reason text default null, variables jsonb default '{}',
    tenant_id text default null
)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    perform shardclock.checked_text('reason', reason);
    perform shardclock.check_variables(variables);
    if code is null or length(code) not between 1 and 200 then
        raise exception 'code % is refused: give 1 to 200 characters', quote_literal(left(code, 60))
            using errcode = 'invalid_parameter_value', constraint = 'invalid_code';
    end if;
    return shardclock.end_service_task(
        task_key, claim, tenant_id, 'DISCARDED', jsonb_build_object('reason', reason),
        jsonb_build_object('kind', 'error', 'code', code, 'reason', coalesce(reason, ''), 'variables', variables)
    );
end
$$;

comment on function shardclock.throw_service_task_error is $$Ends a service task with a BPMN error. An event in the
model may catch the error by its code. The caller must have claimed the task.

task_key: the task
claim: the claim's number
code: the error's code, as in the model
reason: the reason, in a sentence
variables: a JSON object for the event that catches the error
tenant_id: refuse a task of another tenant; null: any tenant
returns: DISCARDED; otherwise a result of complete_service_task
errors: 22023 for an invalid code or a reason of more than 1,000 characters, and as for complete_service_task
example: select shardclock.throw_service_task_error(42, 1, 'OUT_OF_STOCK');
$$;
