-- Resumes many paused timers of clients.
--
-- in:    timer_keys bigint[], missed text
-- out:   setof bigint
-- locks: the timers
-- index: timers_pkey, one probe for each key
-- needs: missed_choice, resume_rows
create or replace function shardclock.resume_timers(timer_keys bigint[], missed text default 'policy')
returns setof bigint
language sql
begin atomic
    select r.timer_key from shardclock.resume_rows(timer_keys, false, shardclock.missed_choice(missed)) as r (timer_key);
end;

comment on function shardclock.resume_timers is $$Resumes the paused timers among the given timers. A timer that became due during the pause is due now. Timers of jobs and processes stay unchanged.

as: cancel_timers
missed: the rule for the occurrences that the schedules missed during the pause: policy (the rule of each schedule), skip, fire_once or fire_all
returns: the keys of the resumed timers
errors: 22023 for an unknown choice
example: select shardclock.resume_timers(array(select timer_key from shardclock.find_timers(state => 'PAUSED', tenant_id => 'acme')), missed => 'skip');
$$;
