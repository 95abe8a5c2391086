-- in:    timer_key bigint, name text, tenant_id text, missed text
-- out:   text
-- locks: the timer
-- index: timers_pkey or timers_by_name_prefix
-- needs: change_timer, missed_choice
create or replace function shardclock.resume_timer(
    timer_key bigint default null,
    name text default null,
    tenant_id text default 'default',
    missed text default 'policy'
)
returns text
language sql
begin atomic
    select shardclock.change_timer(
        'resume', timer_key, name, tenant_id, missed => coalesce(shardclock.missed_choice(missed), 'policy')
    );
end;

comment on function shardclock.resume_timer is $$Resumes a paused timer. If the timer fell due during the pause, it is due
now.

as: cancel_timer
missed: the rule for the occurrences that a schedule missed during the pause: policy (the schedule's own rule), skip (none fires), fire_once (one firing for all) or fire_all (each one fires)
returns: PENDING (now or before; a timer that is not paused stays unchanged), or the timer's end: TRIGGERED, CANCELED, SKIPPED or UNKNOWN
errors: 22023 for neither key nor name, or both, and for an unknown choice; 55000 for a timer of a job or a process
example: select shardclock.resume_timer(name => 'nightly', missed => 'skip');
$$;
