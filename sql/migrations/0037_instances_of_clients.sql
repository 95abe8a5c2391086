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
                jsonb_strip_nulls(
                    jsonb_build_object(
                        'key', start.timer_key, 'kind', 'cancel', 'token', 1, 'by', session_user,
                        'key_prefix', nullif(left(current_setting('shardclock.key_prefix', true), 60), '')
                    )
                )
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

-- The same idempotency key with another business key is another start. Kept with the start, because an instance and its
-- business key may be forgotten before the idempotency key is.
alter table shardclock.process_starts add column business_key text;

update shardclock.process_starts s
set business_key = b.business_key
from shardclock.business_keys b
where b.instance_key = s.instance_key;

comment on column shardclock.process_starts.business_key is 'As the start gave it; null: it gave none.';

create or replace function shardclock.start_process(
    process_id text,
    variables jsonb default '{}',
    tenant_id text default 'default',
    version integer default null,
    idempotency_key text default null,
    business_key text default null
)
returns bigint
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
declare
    definition bigint := shardclock.find_definition(tenant_id, process_id, version);
    before shardclock.process_starts;
    begun_by text;
    key bigint;
begin
    perform shardclock.check_variables(variables);
    if length(business_key) not between 1 and 255 then
        raise exception 'business_key "%" is refused: give 1 to 255 characters', left(business_key, 60)
            using errcode = 'invalid_parameter_value';
    end if;
    if idempotency_key is not null then
        -- Whoever starts with the same key at this moment is waited for.
        perform pg_advisory_xact_lock(hashtextextended(tenant_id || ' ' || idempotency_key, 20));
        select s.* into before
        from shardclock.process_starts s
        where s.tenant_id = start_process.tenant_id and s.idempotency_key = start_process.idempotency_key
            -- An older one is only not forgotten yet.
            and s.asked_at > now() - interval '1 day';
        if before.process_id <> start_process.process_id then
            raise exception 'idempotency_key "%" has started the process "%": use another key',
                left(idempotency_key, 60), left(before.process_id, 60)
                using errcode = 'invalid_parameter_value';
        end if;
        -- Who gives none says nothing about it, as callers do that know no business keys.
        if before.instance_key is not null and business_key <> coalesce(before.business_key, '') then
            raise exception 'idempotency_key "%" has started an instance %: use another key', left(idempotency_key, 60),
                coalesce('with the business key "' || left(before.business_key, 60) || '"', 'without a business key')
                using errcode = 'invalid_parameter_value';
        end if;
        if before.instance_key is not null then
            return before.instance_key;
        end if;
    end if;
    if definition is null then
        -- What is not there has a state of its own, so that an API can say so.
        raise exception 'process "%" %', left(process_id, 60), case
            when version is not null and shardclock.find_definition(tenant_id, process_id) is not null
                then format('has no version %s: leave it out for the newest', version)
            else format(
                'is unknown: %s', coalesce(
                    (
                        select 'the processes are ' || string_agg(d.process_id, ', ' order by d.process_id)
                        from (
                            select distinct d.process_id
                            from shardclock.definitions d
                            where d.tenant_id = start_process.tenant_id and d.deleted_at is null
                            order by d.process_id
                            limit 20
                        ) d
                    ),
                    'none is deployed (shardclock deploy)'
                )
            )
        end
        using errcode = 'no_data_found';
    end if;
    select string_agg(s.said, ' or ' order by s.said) into begun_by
    from (
        select distinct case s.start ->> 'kind'
            when 'timer' then 'its timer'
            else format('the %s "%s"', s.start ->> 'kind', left(s.start ->> 'name', 60))
        end as said
        from shardclock.definitions d
        cross join lateral jsonb_array_elements(d.starts) as s (start)
        where d.definition_key = definition and not d.starts_by_hand
        order by said
        limit 5
    ) s;
    if begun_by is not null then
        raise exception 'process "%" has no start event without a trigger: it begins by %', left(process_id, 60), begun_by
            using errcode = 'invalid_parameter_value';
    end if;
    key := shardclock.send_signal(
        null, tenant_id, jsonb_build_object('kind', 'begin', 'definition', definition, 'variables', variables)
    );
    if business_key is not null then
        insert into shardclock.business_keys (instance_key, tenant_id, business_key)
        values (key, start_process.tenant_id, start_process.business_key);
    end if;
    if idempotency_key is not null then
        insert into shardclock.process_starts (tenant_id, idempotency_key, process_id, instance_key, business_key)
        values (
            start_process.tenant_id, start_process.idempotency_key, start_process.process_id, key,
            start_process.business_key
        )
        on conflict on constraint process_starts_pkey
            do update set
                process_id = excluded.process_id,
                instance_key = excluded.instance_key,
                business_key = excluded.business_key,
                asked_at = now();
    end if;
    return key;
end
$$;

comment on function shardclock.start_process is $$Starts an instance of a process, in the caller's transaction: an
engine begins it once that is committed.

process_id: the id of a deployed process
variables: a JSON object, the variables with which it begins
tenant_id: whose process it is
version: which version; null: the newest
idempotency_key: called again with it within a day, it starts nothing and returns the same instance, also if the second call gives no business_key; null: each call starts one
business_key: what the caller's own world calls the instance, 1 to 255 characters, by which it is found; several may have the same; null: nothing
returns: the instance_key
errors: P0002 for a process or a version that is not deployed; 22023 for variables that are no object or have more than 1 MiB, a business_key that is too long, an idempotency_key that has started another process, or an instance with another business_key or none, or a process that only its message, signal or timer begins
example: select shardclock.start_process('order', variables => '{"order": 42}', idempotency_key => 'order-42', business_key => 'order-42');
$$;

-- All that comes over HTTP comes by the gateway's role, so a gateway says by which API key. What it says in its session
-- stands in each signal, and so in the history of its instance, and in each act on a task. It costs no record.
create or replace function shardclock.send_signal(
    instance_key bigint, tenant_id text, signal jsonb, token bigint default null, node_id text default null
)
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    key_prefix text := left(current_setting('shardclock.key_prefix', true), 60);
    key bigint;
begin
    if octet_length(signal::text) > 1049600 then
        raise exception 'a signal has % bytes: the limit is 1049600 (1 MiB of variables, and 1 KiB for the rest)',
            octet_length(signal::text)
            using errcode = 'invalid_parameter_value';
    end if;
    if key_prefix <> '' then
        signal := signal || jsonb_build_object('key_prefix', key_prefix);
    end if;
    loop
        insert into shardclock.deliveries (
            timer_key, process_instance_key, element_instance_key, next_attempt_at, due_date, created_at, occurrence,
            slot, tenant_id, timer_type, target, target_element_id, payload
        )
        select
            k.key, send_signal.instance_key, token, clock_timestamp(), now(), now(), 1,
            coalesce(send_signal.instance_key, k.key) % 840, tenant_id, 'USER', 'process:instance', node_id, signal
        from nextval('shardclock.timer_key_seq') as k (key)
        on conflict do nothing
        returning timer_key into key;
        exit when key is not null;
        perform shardclock.advance_keys();
    end loop;
    return key;
end
$$;

create function shardclock.note_key_prefix()
returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    new.detail := new.detail || jsonb_build_object('key_prefix', left(current_setting('shardclock.key_prefix'), 60));
    return new;
end
$$;

comment on function shardclock.note_key_prefix is 'Internal: Notes by which API key somebody acts on a task.';

create trigger task_acts_note_key_prefix before insert on shardclock.task_acts
for each row when (current_setting('shardclock.key_prefix', true) <> '')
execute function shardclock.note_key_prefix();
