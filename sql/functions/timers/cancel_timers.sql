-- Cancels many timers of clients.
--
-- in:    timer_keys bigint[], reason text
-- out:   setof bigint
-- locks: the timers
-- index: timers_pkey, one probe for each key
-- needs: cancel_if_pending, checked_text
create or replace function shardclock.cancel_timers(timer_keys bigint[], reason text default null)
returns setof bigint
language sql
begin atomic
    select c.timer_key
    from shardclock.cancel_if_pending(timer_keys, shardclock.checked_text('reason', reason), false) as c (timer_key);
end;

comment on function shardclock.cancel_timers is $$Cancels the given timers that are pending or paused, each with a record.
Timers of jobs and processes stay unchanged.

timer_keys: the timers' keys, for example from find_timers; timers that have ended are ignored
reason: stored in the log records
returns: the keys of the cancelled timers
errors: 22023 for a reason of more than 1,000 characters
example: select shardclock.cancel_timers(array(select timer_key from shardclock.find_timers(tenant_id => 'acme', name_prefix => 'order-')), 'closed');
$$;
