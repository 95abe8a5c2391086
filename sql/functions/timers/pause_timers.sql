-- in:    timer_keys bigint[], reason text
-- out:   setof bigint
-- locks: the timers
-- index: timers_pkey, one probe for each key
-- needs: pause_rows
create or replace function shardclock.pause_timers(timer_keys bigint[], reason text default null)
returns setof bigint
language sql
begin atomic
    select p.timer_key from shardclock.pause_rows(timer_keys, reason, false) as p (timer_key);
end;

comment on function shardclock.pause_timers is $$Keeps the given timers that are pending from firing until they are
resumed. Timers of jobs and processes stay unchanged.

as: cancel_timers
returns: the keys of the paused timers
example: select shardclock.pause_timers(array(select timer_key from shardclock.find_timers(tenant_id => 'acme')), 'month-end close');
$$;
