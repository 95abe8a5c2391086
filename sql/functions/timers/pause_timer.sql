-- in:    timer_key bigint, name text, tenant_id text, reason text
-- out:   text
-- locks: the timer
-- index: timers_pkey or timers_by_name_prefix
-- needs: change_timer
create or replace function shardclock.pause_timer(
    timer_key bigint default null,
    name text default null,
    tenant_id text default 'default',
    reason text default null
)
returns text
language sql
begin atomic
    select shardclock.change_timer('pause', timer_key, name, tenant_id, reason);
end;

comment on function shardclock.pause_timer is $$Keeps a pending timer from firing until it is resumed.

as: cancel_timer
returns: PAUSED (now or before), or the timer's end: TRIGGERED, CANCELED, SKIPPED or UNKNOWN
example: select shardclock.pause_timer(name => 'nightly', reason => 'month-end close');
$$;
