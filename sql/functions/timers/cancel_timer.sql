-- Cancels one timer of a client, found by key or name.
--
-- The call is in time if the delete in cancel_if_pending still finds the timer's row.
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
name: the timer's name; for a schedule, the pending occurrence has the name
tenant_id: the tenant of the name
reason: stored in the log record
returns: CANCELED (by this call or earlier), or how the timer ended: TRIGGERED (too late: it has fired), SKIPPED (missed, with policy skip), UNKNOWN (the timer does not exist)
errors: 22023 unless exactly one of key and name is given, and for a reason of more than 1,000 characters; 55000 for a timer of a job or a process
example: select shardclock.cancel_timer(name => 'cart-7', reason => 'paid');
$$;
