-- in:    timer_keys bigint[]
-- out:   setof bigint
-- locks: the timers
-- index: timers_pkey, one probe for each key
-- needs: resume_rows
create or replace function shardclock.resume_timers(timer_keys bigint[])
returns setof bigint
language sql
begin atomic
    select r.timer_key from shardclock.resume_rows(timer_keys, false) as r (timer_key);
end;

comment on function shardclock.resume_timers is $$Resumes the given timers that are paused. A timer that fell due during
the pause is due now, and its missed-run policy applies. Timers of jobs and processes stay unchanged.

as: cancel_timers
returns: the keys of the resumed timers
example: select shardclock.resume_timers(array(select timer_key from shardclock.find_timers(state => 'PAUSED', tenant_id => 'acme')));
$$;
