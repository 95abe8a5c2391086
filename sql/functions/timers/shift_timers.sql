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
    -- If the same operation is sent again while the first call still runs, this waits, and then finds its records.
    -- Without an operation the key is null, and this waits for nothing.
    perform pg_advisory_xact_lock(hashtextextended('shardclock.shift_timers ' || operation, 0));
    return query
    select shardclock.move_timers(
        shardclock.keys_of_clients(timer_keys), null, shardclock.shift_length(shift), operation
    );
exception when datetime_field_overflow or check_violation then
    raise exception 'shift "%" is too long: it would move a timer out of the years 1 to 9999', left(shift, 60)
        using errcode = 'invalid_parameter_value';
end
$$;

comment on function shardclock.shift_timers is $$Moves the pending and paused timers among these by a length, each on
the calendar of its own zone. A schedule's grid stays. Timers of jobs and processes are left as they are.

timer_keys: the timers' keys, for example from find_timers; timers that have ended are ignored
shift: an ISO 8601 duration, with a minus sign to move backwards: PT1H, -P1D
operation: a name for this shift, if it may be sent again: with the same name no timer moves twice
returns: the keys of the timers that were moved
errors: 22023 for a text that is no duration, or that would move a timer out of the years 1 to 9999
example: select shardclock.shift_timers(array(select timer_key from shardclock.find_timers(tenant_id => 'acme')), 'P1D', operation => 'acme-moves-on');
$$;
