-- Changes a timer of a job or a process, for an operator.
--
-- in:    verb text, timer_key bigint, name text, tenant_id text, due_date timestamptz, delay text, shift text, reason
--        text, missed text, until timestamptz
-- out:   text
-- locks: the timer
-- index: timers_pkey or timers_by_name_prefix
create or replace function shardclock.change_system_timer(
    verb text,
    timer_key bigint default null,
    name text default null,
    tenant_id text default 'default',
    due_date timestamptz default null,
    delay text default null,
    shift text default null,
    reason text default null,
    missed text default 'policy',
    until timestamptz default null
)
returns text
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    choice constant text := shardclock.missed_choice(missed);
    ends_at timestamptz;
    key bigint;
    t shardclock.timers;
begin
    perform shardclock.check_one_timer(timer_key, name);
    if verb is null or verb not in ('pause', 'resume', 'reschedule') then
        raise exception 'verb % is unknown: use pause, resume or reschedule', quote_literal(left(verb, 60))
            using errcode = 'invalid_parameter_value', constraint = 'invalid_verb';
    end if;
    if num_nonnulls(due_date, delay, shift) <> (verb = 'reschedule')::integer then
        raise exception 'verb % has % of due_date, delay and shift: reschedule needs exactly one, pause and resume none',
            quote_literal(verb), num_nonnulls(due_date, delay, shift)
            using errcode = 'invalid_parameter_value', constraint = 'invalid_verb';
    end if;
    if verb = 'reschedule' and choice is not null then
        raise exception 'missed % is for pause and resume; leave it out', quote_literal(choice)
            using errcode = 'invalid_parameter_value', constraint = 'invalid_missed';
    end if;
    if verb <> 'pause' and until is not null then
        raise exception 'until % is for pause; leave it out', quote_literal(until)
            using errcode = 'invalid_parameter_value', constraint = 'invalid_until';
    end if;
    perform shardclock.checked_text('reason', reason);
    if verb = 'pause' then
        ends_at := shardclock.end_of_pause(until, missed => missed);
    end if;
    if due_date is not null then
        perform shardclock.check_due_date(due_date, 'due_date', due_date::text);
    end if;
    loop
        key := shardclock.pending_key(timer_key, name, tenant_id);
        exit when key is null;
        select o.* into t from shardclock.timers o where o.timer_key = key;
        continue when not found;
        if not shardclock.is_of_system(t.target) then
            raise exception 'timer % belongs to a client: change it by pause_timer, resume_timer or reschedule_timer', key
                using errcode = 'object_not_in_prerequisite_state', constraint = 'timer_of_client';
        end if;
        case verb
            when 'pause' then perform shardclock.pause_rows(array[key], reason, true, ends_at, choice);
            when 'resume' then perform shardclock.resume_rows(array[key], true, choice);
            else perform shardclock.move_timers(
                array[key],
                case when delay is null then due_date else shardclock.delay_from_now(delay, t.zone, 'delay') end,
                case when shift is not null then shardclock.shift_length(shift) end,
                null
            );
        end case;
        if found then
            return case verb when 'pause' then 'PAUSED' when 'resume' then 'PENDING' else 'RESCHEDULED' end;
        end if;
        select o.* into t from shardclock.timers o where o.timer_key = key;
        continue when not found; -- the timer ended while we waited for its row
        if verb = 'reschedule' then
            raise exception 'timer % has no date yet: a running cluster plans its schedule, unless it is paused; try again '
                'later', key
                using errcode = 'object_not_in_prerequisite_state', constraint = 'timer_unplanned';
        end if;
        return case when t.paused_due_date is null then 'PENDING' else 'PAUSED' end; -- it was so before
    end loop;
    return shardclock.ended_as(timer_key, name, tenant_id);
end
$$;

comment on function shardclock.change_system_timer is $$Changes a timer of a job or a process; this function is for operators. The functions for clients refuse these timers.

verb: pause, resume or reschedule
timer_key: the timer's key; give either its key or its name
name: the timer's name, such as job:nightly
tenant_id: the tenant of the name
due_date: for reschedule: the new due date. Give exactly one of due_date, delay and shift
delay: for reschedule: an ISO 8601 duration from now
shift: for reschedule: an ISO 8601 duration from the current due date, with a minus sign to move backwards
reason: for pause: stored in the log record
missed: for resume, and for pause with until: the rule for missed occurrences, as for resume_timer
until: for pause: the end of the pause, as for pause_timer
returns: PAUSED, PENDING or RESCHEDULED (by this call or earlier), or how the timer ended: TRIGGERED, CANCELED, SKIPPED or UNKNOWN
errors: 22023 for a wrong argument, with a message that names the argument; 55000 for a timer of a client, and for a schedule that has no date yet
example: select shardclock.change_system_timer('pause', name => 'job:nightly', reason => 'month-end close');
$$;
