-- Cancels, pauses, resumes or runs one timer, found by key or name.
--
-- If the timer ends before the function has locked its row, the function searches again. For the verb run, `reason` is
-- the name of the operation.
--
-- in:    verb text, timer_key bigint, name text, tenant_id text, reason text, until timestamptz, missed text
-- out:   text
-- locks: the timer
-- index: timers_pkey or timers_by_name_prefix; for an ended timer, the indexes of ended_as
create or replace function shardclock.change_timer(
    verb text,
    timer_key bigint,
    name text,
    tenant_id text,
    reason text default null,
    until timestamptz default null,
    missed text default 'policy'
)
returns text
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    key bigint;
    state text;
begin
    perform shardclock.check_one_timer(timer_key, name);
    if verb <> 'run' then
        perform shardclock.checked_text('reason', reason);
    end if;
    loop
        key := shardclock.pending_key(timer_key, name, tenant_id);
        exit when key is null;
        case verb
            when 'cancel' then perform shardclock.cancel_timers(array[key], reason);
            when 'pause' then perform shardclock.pause_timers(array[key], reason, until, missed);
            when 'resume' then perform shardclock.resume_timers(array[key], missed);
            when 'run' then perform shardclock.run_timers(array[key], reason);
        end case;
        if found then
            return case verb
                when 'cancel' then 'CANCELED' when 'pause' then 'PAUSED' when 'resume' then 'PENDING' else 'RESCHEDULED'
            end;
        end if;
        select case when t.paused_due_date is null then 'PENDING' else 'PAUSED' end into state
        from shardclock.timers t
        where t.timer_key = key;
        if found then
            perform shardclock.check_client_timer(key);
            return state; -- there was nothing to change
        end if;
        -- The timer ended while this call waited for its row. If the timer fired, the next occurrence may have the
        -- timer's name.
    end loop;
    return shardclock.ended_as(timer_key, name, tenant_id);
end
$$;
