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
    raise exception '%, or let an operator change the timer (shardclock operate)', case
        when t.target ^@ 'job:'
            then format(
                'timer %s starts job "%s": run or disable the job (shardclock jobs)', t.timer_key, substr(t.target, 5)
            )
        when t.process_instance_key is null
            then format(
                'timer %s starts instances of a process: delete its definition (shardclock processes delete)',
                t.timer_key
            )
        else format(
            'timer %s belongs to instance %s: cancel that (shardclock processes cancel %s), move its token',
            t.timer_key, t.process_instance_key, t.process_instance_key
        )
    end
        using errcode = 'object_not_in_prerequisite_state';
end
$$;

comment on function shardclock.check_client_timer is
    'Internal: Refuses a client''s change of a timer that is one of a job or a process.';
