-- Pauses one timer of a client, until a resume or until a moment.
--
-- in:    timer_key bigint, name text, tenant_id text, reason text, until timestamptz, missed
--        text
-- out:   text
-- locks: the timer
-- index: timers_pkey or timers_by_name_prefix
-- needs: change_timer, end_of_pause
create or replace function shardclock.pause_timer(
    timer_key bigint default null,
    name text default null,
    tenant_id text default 'default',
    reason text default null,
    until timestamptz default null,
    missed text default 'policy'
)
returns text
language sql
begin atomic
    select shardclock.change_timer(
        'pause', timer_key, name, tenant_id, reason, shardclock.end_of_pause(until, missed => missed), missed
    );
end;

comment on function shardclock.pause_timer is $$Pauses a timer until it is resumed, or until a moment. For a paused timer, the call changes the end of the pause.

as: cancel_timer
until: the end of the pause, a moment in the future; null: the pause has no end
missed: with until: the rule for the occurrences that a schedule misses during the pause, as for resume_timer
returns: PAUSED (by this call or earlier), or how the timer ended: TRIGGERED, CANCELED, SKIPPED or UNKNOWN
errors: 22023 unless exactly one of key and name is given, for an end that is not in the future, for an unknown choice, and for a reason of more than 1,000 characters; 55000 for a timer of a job or a process
example: select shardclock.pause_timer(name => 'nightly', reason => 'month-end close', until => now() + interval '2 hours');
$$;
