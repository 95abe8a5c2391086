-- in:    timer_key bigint, name text, tenant_id text
-- out:   text
-- locks: the timer
-- index: timers_pkey or timers_by_name_prefix
-- needs: change_timer
create or replace function shardclock.resume_timer(
    timer_key bigint default null,
    name text default null,
    tenant_id text default 'default'
)
returns text
language sql
begin atomic
    select shardclock.change_timer('resume', timer_key, name, tenant_id, null);
end;

comment on function shardclock.resume_timer is $$Resumes a paused timer. If the timer fell due during the pause, it is due
now, and its missed-run policy applies.

as: cancel_timer
returns: PENDING (now or before), or the timer's end: TRIGGERED, CANCELED, SKIPPED or UNKNOWN
example: select shardclock.resume_timer(name => 'nightly');
$$;
