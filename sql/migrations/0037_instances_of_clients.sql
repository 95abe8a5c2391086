-- Instances of processes, as clients see them: what an instance waits for is cancelled with it, and not by itself.

-- A token whose timer is cancelled would wait for ever. The engine deletes such timers by statements of its own.
create or replace function shardclock.cancel_timers(timer_keys bigint[], reason text default null)
returns setof bigint
language sql
set enable_seqscan = off
begin atomic
    with gone as (
        delete from shardclock.timers t
        where t.timer_key = any (timer_keys)
            and (t.target = 'process:instance' and t.process_instance_key is not null) is not true
        returning t as timer
    )
    select (g.timer).timer_key
    from gone g
    cross join lateral shardclock.log_of(
        g.timer,
        'CANCELED',
        coalesce((g.timer).paused_due_date, (g.timer).due_date),
        jsonb_build_object('reason', reason)
    );
end;

comment on function shardclock.cancel_timers is $$Cancels the pending and paused timers among these, each with its
record. Those that belong to an instance of a BPMN process are left as they are: cancel the instance.

timer_keys: the timers' keys, for example from find_timers; timers that have ended are ignored
reason: kept in the records
returns: the keys of the timers that were cancelled
errors: none of its own
example: select shardclock.cancel_timers(array(select timer_key from shardclock.find_timers(tenant_id => 'acme', name_prefix => 'order-')), 'closed');
$$;

-- Changes one timer, found by its key or its name; if it ended before we could lock it, searches again.
create or replace function shardclock.change_timer(verb text, timer_key bigint, name text, tenant_id text, reason text)
returns text
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    key bigint;
    state text;
    instance bigint;
begin
    perform shardclock.check_one_timer(timer_key, name);
    loop
        key := shardclock.pending_key(timer_key, name, tenant_id);
        exit when key is null;
        case verb
            when 'cancel' then perform shardclock.cancel_timers(array[key], reason);
            when 'pause' then perform shardclock.pause_timers(array[key], reason);
            when 'resume' then perform shardclock.resume_timers(array[key]);
            when 'run' then perform shardclock.run_timers(array[key], reason); -- of a run, its operation
        end case;
        if found then
            return case verb
                when 'cancel' then 'CANCELED' when 'pause' then 'PAUSED' when 'resume' then 'PENDING' else 'RESCHEDULED'
            end;
        end if;
        select
            case when t.paused_due_date is null then 'PENDING' else 'PAUSED' end,
            case when t.target = 'process:instance' then t.process_instance_key end
        into state, instance
        from shardclock.timers t
        where t.timer_key = key;
        if found then
            if verb = 'cancel' and instance is not null then
                raise exception 'timer % belongs to instance %: cancel that (shardclock processes cancel %), or move its token',
                    key, instance, instance
                    using errcode = 'object_not_in_prerequisite_state';
            end if;
            return state; -- there was nothing to change
        end if;
        -- The timer ended while we waited for its row. After a firing, the next occurrence has the same name.
    end loop;
    return shardclock.ended_as(timer_key, name, tenant_id);
end
$$;

comment on function shardclock.cancel_timer is $$Cancels a pending or paused timer.

timer_key: the timer's key; give either its key or its name
name: the timer's name; for a schedule this is the pending occurrence
tenant_id: the tenant that the name belongs to
reason: kept in the record
returns: CANCELED (now or before), or how it ended: TRIGGERED (too late: it has fired), SKIPPED (missed, with policy skip), UNKNOWN (there is no such timer)
errors: 22023 for neither key nor name, or both; 55000 for a timer that belongs to an instance of a BPMN process, which waits for it: cancel_instance, or move_tokens
example: select shardclock.cancel_timer(name => 'cart-7', reason => 'paid');
$$;

create or replace function shardclock.cancel_process_instance(process_instance_key bigint, reason text default null)
returns bigint
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    keys bigint[];
    cancelled bigint := 0;
begin
    loop
        keys := array(
            select t.timer_key
            from shardclock.timers t
            where t.process_instance_key = cancel_process_instance.process_instance_key
                and (t.target = 'process:instance') is not true
        );
        exit when keys = '{}';
        -- A timer that fired while we waited for its row is gone, but its next occurrence may exist: read again.
        cancelled := cancelled + (select count(*) from shardclock.cancel_timers(keys, reason));
    end loop;
    return cancelled;
end
$$;

comment on function shardclock.cancel_process_instance is $$Cancels all timers of a process instance of another engine's, pending
and paused. What an instance of a BPMN process waits for here is cancelled with it: cancel_instance.

process_instance_key: the process instance that the timers were scheduled for
reason: kept in the records
returns: how many timers were cancelled
errors: none of its own
example: select shardclock.cancel_process_instance(42, reason => 'the process ended');
$$;
