-- Cancels one timer of a client. `change_timer` finds the timer, and `cancel_rows` deletes the row. If a firing deleted
-- the row before, the cancel is too late.
--
-- in:    timer_key bigint, name text, tenant_id text, reason text
-- out:   text
-- locks: the timer
-- index: timers_pkey or timers_by_name_prefix
-- needs: change_timer
create or replace function shardclock.cancel_timer(
    timer_key bigint default null,
    name text default null,
    tenant_id text default 'default',
    reason text default null
)
returns text
language sql
begin atomic
    select shardclock.change_timer('cancel', timer_key, name, tenant_id, reason);
end;

comment on function shardclock.cancel_timer is $$Cancels a pending or paused timer.

timer_key: the timer's key; give either its key or its name
name: the timer's name; for a schedule this is the pending occurrence
tenant_id: the tenant of the name
reason: kept in the record
returns: CANCELED (now or before), or the timer's end: TRIGGERED (too late: it has fired), SKIPPED (missed, with policy skip), UNKNOWN (the timer does not exist)
errors: 22023 for neither key nor name, or both, and for a reason of more than 1,000 characters; 55000 for a timer of a job or a process
example: select shardclock.cancel_timer(name => 'cart-7', reason => 'paid');
$$;
