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

-- A start that no engine could take is a dead letter, which an operator may redrive later: an instance that is cancelled
-- until then never begins. It is written as one that has ended, so that it is found until it is forgotten. It runs as its
-- owner, because nobody who cancels may write instances; cancel_instance looks first whether the caller sees the start.
create function shardclock.cancel_start(instance_key bigint)
returns boolean
language plpgsql
security definer
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
declare
    start shardclock.dead_letters;
begin
    delete from shardclock.dead_letters d
    where d.timer_key = cancel_start.instance_key
        and (d.target = 'process:instance') is true
        and d.process_instance_key is null
    returning d.* into start;
    if not found then
        return false; -- somebody has redriven or discarded it
    end if;
    insert into shardclock.command_log (
        timer_key, due_date, created_at, occurrence, intent, tenant_id, timer_type, target, target_element_id, name,
        schedule, detail
    )
    values (
        start.timer_key, start.due_date, start.created_at, start.occurrence, 'DISCARDED', start.tenant_id,
        start.timer_type, start.target, start.target_element_id, start.name, start.schedule,
        jsonb_build_object('by', session_user, 'reason', 'its instance was cancelled')
    );
    insert into shardclock.instances (
        instance_key, definition_key, version, started_at, ended_at, tenant_id, process_id, outcome
    )
    select start.timer_key, d.definition_key, 1, start.created_at, now(), d.tenant_id, d.process_id, 'CANCELED'
    from shardclock.definitions d
    where d.definition_key = (start.payload ->> 'definition')::bigint;
    if found then
        insert into shardclock.instance_steps (instance_key, version, holder, signals, passes)
        values (
            start.timer_key, 1, 0,
            jsonb_build_array(
                jsonb_build_object('key', start.timer_key, 'kind', 'cancel', 'token', 1, 'by', session_user)
            ),
            '[]'
        );
    else
        -- Its process is gone, so there is nothing to show.
        delete from shardclock.business_keys b where b.instance_key = start.timer_key;
    end if;
    return true;
end
$$;

comment on function shardclock.cancel_start is 'Internal: Cancels an instance whose start was given up.';

create or replace function shardclock.cancel_instance(instance_key bigint, tenant_id text default null)
returns text
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
declare
    ended_as text;
begin
    loop
        if shardclock.signal_instance(instance_key, tenant_id, '{"kind": "cancel"}') = 'SENT' then
            return 'SENT';
        end if;
        select i.outcome into ended_as
        from shardclock.instances i
        where i.instance_key = cancel_instance.instance_key
            and (cancel_instance.tenant_id is null or i.tenant_id = cancel_instance.tenant_id);
        if found then
            return ended_as;
        end if;
        perform
        from shardclock.dead_letters d
        where d.timer_key = cancel_instance.instance_key
            and (d.target = 'process:instance') is true
            and d.process_instance_key is null
            and (cancel_instance.tenant_id is null or d.tenant_id = cancel_instance.tenant_id);
        if not found then
            return 'NOT_FOUND';
        end if;
        if shardclock.cancel_start(instance_key) then
            return 'SENT';
        end if;
        -- Somebody has redriven it meanwhile: it may have begun.
    end loop;
end
$$;

comment on function shardclock.cancel_instance is $$Cancels an instance of a process, in the caller's transaction: an
engine terminates its tokens, and its timers, jobs, tasks and called processes with them. One whose start was given up is
cancelled at once: the dead letter of its start is discarded.

instance_key: the instance
tenant_id: refuse an instance of another tenant; null: of any
returns: SENT; CANCELED: it was cancelled already; COMPLETED or ERROR: too late, it has ended so; NOT_FOUND: it never was, or is forgotten
errors: none
example: select shardclock.cancel_instance(42);
$$;
