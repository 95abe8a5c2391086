-- Moves many timers of clients by a duration.
--
-- in:    timer_keys bigint[], shift text, operation text
-- out:   setof bigint
-- locks: the timers, and the operation until the transaction ends
-- index: timers_pkey, one probe for each key; command_log_by_operation
create or replace function shardclock.shift_timers(timer_keys bigint[], shift text, operation text default null)
returns setof bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
begin
    if shift is null then
        raise exception 'shift is null: give an ISO 8601 duration, such as PT1H or -P1D'
            using errcode = 'invalid_parameter_value', constraint = 'invalid_shift';
    end if;
    perform shardclock.checked_text('operation', operation, 200);
    -- A repeated call waits for this lock while the first call runs, and then finds the records of the first call.
    -- Without an operation the key is null, so the call takes no lock.
    perform pg_advisory_xact_lock(hashtextextended('shardclock.shift_timers ' || operation, 0));
    return query
    select shardclock.move_timers(
        shardclock.keys_of_clients(timer_keys), null, shardclock.shift_length(shift), operation
    );
exception when datetime_field_overflow or check_violation then
    raise exception 'shift % is too long: it would move a timer out of the years 1 to 9999', quote_literal(left(shift, 60))
        using errcode = 'invalid_parameter_value', constraint = 'invalid_shift';
end
$$;

comment on function shardclock.shift_timers is $$Moves the pending and paused timers among the given timers by a duration, each on the calendar of its own zone. The rule of a schedule does not change. Timers of jobs and processes stay unchanged.

timer_keys: the timers' keys, for example from find_timers; timers that have ended are ignored
shift: an ISO 8601 duration, with a minus sign to move backwards: PT1H, -P1D
operation: a name for this shift; a repeated call with the same name moves no timer again
returns: the keys of the moved timers
errors: 22023 if `shift` is not a duration, if it would move a timer out of the years 1 to 9999, or if `operation` has more than 200 characters
example: select shardclock.shift_timers(array(select timer_key from shardclock.find_timers(tenant_id => 'acme')), 'P1D', operation => 'acme-moves-on');
$$;
