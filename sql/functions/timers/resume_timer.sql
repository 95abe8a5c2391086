-- Resumes one paused timer of a client.
--
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

comment on function shardclock.resume_timer is $$Resumes a paused timer. If the timer became due during the pause, it is due now.

as: cancel_timer
missed: the rule for the occurrences that a schedule missed during the pause: policy (the schedule's own rule), skip (none fires), fire_once (one firing for all) or fire_all (each one fires)
returns: PENDING (a timer that was not paused does not change), or how the timer ended: TRIGGERED, CANCELED, SKIPPED or UNKNOWN
errors: 22023 unless exactly one of key and name is given, and for an unknown choice; 55000 for a timer of a job or a process
example: select shardclock.resume_timer(name => 'nightly', missed => 'skip');
$$;
