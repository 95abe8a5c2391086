-- Refuses a client's change of a timer that belongs to a job or a process.
--
-- in:    timer_key bigint
-- out:   nothing
-- locks: nothing
-- index: timers_pkey
create or replace function shardclock.check_client_timer(timer_key bigint)
returns void
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
declare
    t shardclock.timers;
begin
    select o.* into t
    from shardclock.timers o
    where o.timer_key = check_client_timer.timer_key and shardclock.is_of_system(o.target);
    if not found then
        return;
    end if;
    if t.target ^@ 'job:' then
        raise exception 'timer % starts job %: run or disable the job (shardclock jobs), or let an operator change the timer '
            '(shardclock operate)', t.timer_key, quote_literal(substr(t.target, 5))
            using errcode = 'object_not_in_prerequisite_state', constraint = 'timer_of_job';
    end if;
    if t.process_instance_key is null then
        raise exception 'timer % starts instances of a process: delete its definition (shardclock processes delete), or let an '
            'operator change the timer (shardclock operate)', t.timer_key
            using errcode = 'object_not_in_prerequisite_state', constraint = 'timer_of_definition';
    end if;
    raise exception 'timer % belongs to instance %: cancel the instance (shardclock processes cancel), move its token, or let '
        'an operator change the timer (shardclock operate)', t.timer_key, t.process_instance_key
        using errcode = 'object_not_in_prerequisite_state', constraint = 'timer_of_instance';
end
$$;

comment on function shardclock.check_client_timer is
    'Internal: Refuses a client''s change of a timer that belongs to a job or a process.';
