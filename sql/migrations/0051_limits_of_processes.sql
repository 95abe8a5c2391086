-- Limits of JSON, and of the rows that processes keep for a tenant.
--
-- JSON has one depth wherever it comes in: a row that a client can't read would hide all others of its answer. Python has
-- the same limit in timers/payload.py.

create function shardclock.is_too_deep(document jsonb)
returns boolean
language sql
immutable
begin atomic
    -- The root is at level 0, so a list or an object at level 100 is one level too deep.
    select coalesce(
        jsonb_path_exists(document, 'strict $.**{100} ? (@.type() == "array" || @.type() == "object")'), false
    );
end;

comment on function shardclock.is_too_deep is 'Internal: Says whether JSON is nested deeper than 100 levels.';

create function shardclock.too_deep(what text, document jsonb)
returns text
language sql
immutable
begin atomic
    select format('%s %s is nested deeper than 100 levels; flatten it', what, left(document::text, 60));
end;

comment on function shardclock.too_deep is 'Internal: Refuses JSON that is nested too deeply, in a sentence.';

create or replace function shardclock.check_variables(variables jsonb)
returns void
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    if jsonb_typeof(variables) is distinct from 'object' then
        raise exception 'variables are %: give a JSON object, of names and values',
            coalesce(jsonb_typeof(variables), 'null')
            using errcode = 'invalid_parameter_value';
    end if;
    if octet_length(variables::text) > 1048576 then
        raise exception 'variables have % bytes: the limit is 1048576 (1 MiB)', octet_length(variables::text)
            using errcode = 'invalid_parameter_value';
    end if;
    if shardclock.is_too_deep(variables) then
        raise exception '%', shardclock.too_deep('variables', variables) using errcode = 'invalid_parameter_value';
    end if;
    -- 310 digits, in two parts: Postgres counts to 255. Most variables have none, and are not read twice.
    if variables::text ~ '[0-9]{155}[0-9]{155}'
        and regexp_replace(variables::text, E'"(\\\\.|[^"\\\\])*"', '""', 'g') ~ '(^|[^0-9.])[0-9]{155}[0-9]{155}'
    then
        raise exception 'variables hold a number of more than 309 digits, which no double holds: write it as a text'
            using errcode = 'invalid_parameter_value';
    end if;
end
$$;

create or replace function shardclock.broken_rule(t shardclock.timers)
returns text[]
language sql
stable
begin atomic
    -- Python's datetime ends with year 9999 (and asyncpg writes its last moment as infinity). A row that it can't
    -- decode would make its whole batch fail.
    select case
        when t.timer_key < 1
            then array['timer_key_is_positive', format('timer_key %s must be at least 1', t.timer_key)]
        when t.due_date < '0001-01-01 00:00:00+00' or t.due_date >= '9999-12-31 23:59:59.999999+00'
            then shardclock.out_of_range(t.due_date, 'due_date')
        when t.created_at < '0001-01-01 00:00:00+00' or t.created_at >= '9999-12-31 23:59:59.999999+00'
            then shardclock.out_of_range(t.created_at, 'created_at')
        when t.anchor < '0001-01-01 00:00:00+00' or t.anchor >= '9999-12-31 23:59:59.999999+00'
            then shardclock.out_of_range(t.anchor, 'anchor')
        when t.paused_due_date < '0001-01-01 00:00:00+00' or t.paused_due_date >= '9999-12-31 23:59:59.999999+00'
            then shardclock.out_of_range(t.paused_due_date, 'paused_due_date')
        when t.changed_at < '0001-01-01 00:00:00+00' or t.changed_at >= '9999-12-31 23:59:59.999999+00'
            then shardclock.out_of_range(t.changed_at, 'changed_at')
        when t.kept_due_date < '0001-01-01 00:00:00+00' or t.kept_due_date >= '9999-12-31 23:59:59.999999+00'
            then shardclock.out_of_range(t.kept_due_date, 'kept_due_date')
        when (t.paused_due_date is not null) <> (t.due_date = '9999-12-31 23:59:59.999998+00')
            or (t.paused_due_date is not null and t.claimed_by is not null)
            then array[
                'pause_is_whole',
                'a paused timer has its due date in paused_due_date, and nobody leases it: '
                'pause it with shardclock.pause_timer'
            ]
        when t.tenant_id <> 'default' and (length(t.tenant_id) not between 1 and 200 or t.tenant_id ~ '[[:cntrl:]]')
            then array[
                'tenant_id_is_1_to_200_characters',
                format(
                    'tenant_id "%s" must have 1 to 200 characters, none of them a control character',
                    left(t.tenant_id, 60)
                )
            ]
        when length(t.name) not between 1 and 200 or t.name ~ '[[:cntrl:]]'
            then array[
                'name_is_1_to_200_characters',
                format('name "%s" must have 1 to 200 characters, none of them a control character', left(t.name, 60))
            ]
        when length(t.target_element_id) not between 1 and 200
            then array[
                'target_element_id_is_1_to_200_characters',
                format('target_element_id "%s" must have 1 to 200 characters', left(t.target_element_id, 60))
            ]
        when t.timer_type not in ('BOUNDARY', 'INTERMEDIATE', 'START_EVENT', 'USER')
            then array[
                'timer_type_is_known',
                format(
                    'timer_type "%s" is unknown: use BOUNDARY, INTERMEDIATE, START_EVENT or USER',
                    left(t.timer_type, 60)
                )
            ]
        when t.target <> 'log' and (length(t.target) not between 1 and 200 or t.target ~ '[[:cntrl:]]')
            then array[
                'target_is_1_to_200_characters',
                format(
                    'target "%s" must have 1 to 200 characters, none of them a control character', left(t.target, 60)
                )
            ]
        when t.zone !~ '^[A-Za-z][A-Za-z0-9_+/-]{0,63}$'
            then array[
                'zone_is_1_to_64_characters',
                format('zone "%s" is unknown: write an IANA name such as UTC or Europe/Berlin', left(t.zone, 60))
            ]
        when t.missed not in ('fire_once', 'fire_all', 'skip')
            then array[
                'missed_is_known',
                format('missed "%s" is unknown: use fire_once, fire_all or skip', left(t.missed, 60))
            ]
        when octet_length(t.payload::text) > 65536
            then array[
                'payload_is_at_most_64_kib',
                format('payload has %s bytes: the limit is 65536 (64 KiB)', octet_length(t.payload::text))
            ]
        when shardclock.is_too_deep(t.payload)
            then array[
                'payload_is_at_most_100_deep',
                shardclock.too_deep(case when t.target ^@ 'job:' then 'config' else 'payload' end, t.payload)
            ]
        when t.occurrence < 1 or not (t.repetitions = -1 or (t.repetitions >= 1 and t.occurrence <= t.repetitions))
            then array[
                'occurrence_is_within_repetitions',
                format(
                    'occurrence %s of %s is none: repetitions are -1 (without end) or a number that occurrence reaches',
                    t.occurrence, t.repetitions
                )
            ]
        -- Only timers.schedule parses schedules: a shard pauses a row with a schedule that can't be parsed.
        when length(t.schedule) not between 1 and 200 or t.schedule ~ '[[:cntrl:]]'
            then array[
                'schedule_is_1_to_200_characters',
                format(
                    'schedule "%s" must have 1 to 200 characters, none of them a control character',
                    left(t.schedule, 60)
                )
            ]
        when t.schedule is null
            and (t.repetitions <> 1 or t.occurrence <> 1 or num_nonnulls(t.anchor, t.kept_due_date) > 0)
            then array[
                'schedule_is_whole',
                'repetitions, occurrence, anchor and kept_due_date are for a schedule: '
                'leave them out, or give the schedule'
            ]
        when t.schedule is not null and (t.anchor is null or t.name is null)
            then array['schedule_is_whole', format('schedule "%s" needs an anchor and a name', left(t.schedule, 60))]
    end;
end;

create function shardclock.refuse_deep_config()
returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception '%', shardclock.too_deep('config', new.config) using errcode = 'invalid_parameter_value';
end
$$;

comment on function shardclock.refuse_deep_config is 'Internal: Refuses the configuration of a job that is nested too deeply.';

create trigger jobs_refuse_deep_config before insert or update of config on shardclock.jobs
for each row when (shardclock.is_too_deep(new.config)) execute function shardclock.refuse_deep_config();

-- Quotas of the rows that processes keep for a tenant, for every way in: docs/decisions/0071-quotas-of-processes.md.
alter table shardclock.tenants
    add column instances_max bigint,
    add column tasks_max bigint,
    add column messages_max bigint,
    add column definitions_max bigint,
    add constraint limits_of_processes_are_not_negative check (
        least(instances_max, tasks_max, messages_max, definitions_max) >= 0
    );

comment on column shardclock.tenants.instances_max is 'Instances of processes that have not ended; null: 1,000,000.';
comment on column shardclock.tenants.tasks_max is 'Open tasks of persons; null: 1,000,000.';
comment on column shardclock.tenants.messages_max is 'Messages that are kept for later tokens; null: 100,000.';
comment on column shardclock.tenants.definitions_max is 'Versions of processes that are not deleted; null: 10,000.';

create table shardclock.tenant_usage (
    tenant_id text not null,
    resource text not null,
    used bigint not null default 0,
    counted_at timestamptz not null default '1970-01-01 00:00:00+00',

    constraint tenant_usage_pkey primary key (tenant_id, resource)
)
with (fillfactor = 50);

comment on table shardclock.tenant_usage is
    'How much tenants with large quotas have, by the last count; a row is there while something is asked for.';

create function shardclock.quota_of(tenant_id text, resource text)
returns bigint
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
    select case resource
        when 'timers' then t.timers_max
        when 'instances' then coalesce(t.instances_max, 1000000)
        when 'starts' then coalesce(t.instances_max, 1000000)
        when 'tasks' then coalesce(t.tasks_max, 1000000)
        when 'messages' then coalesce(t.messages_max, 100000)
        when 'definitions' then coalesce(t.definitions_max, 10000)
    end
    from (select quota_of.tenant_id) asked
    left join shardclock.tenants t on t.tenant_id = asked.tenant_id
$$;

comment on function shardclock.quota_of is 'Internal: Says how much a tenant may have; null: no limit.';

-- A signal that an engine sends in parts is a delivery without an instance, as a start is. These indexes count such
-- signals without reading the payloads of starts.
create index deliveries_of_throws on shardclock.deliveries (tenant_id)
where (target = 'process:instance' and payload ->> 'kind' = 'thrown') is true;

create index dead_letters_of_throws on shardclock.dead_letters (tenant_id)
where (target = 'process:instance' and payload ->> 'kind' = 'thrown') is true;

create function shardclock.used_of(tenant_id text, resource text, most bigint)
returns bigint
language plpgsql
stable
security definer
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    throws bigint := 0;
begin
    if resource = 'starts' then
        throws := (
            select count(*)
            from shardclock.deliveries d
            where d.tenant_id = used_of.tenant_id
                and (d.target = 'process:instance' and d.payload ->> 'kind' = 'thrown') is true
        );
    end if;
    return case resource
        when 'timers' then (
            select count(*)
            from (
                select from shardclock.timers t
                where t.tenant_id = used_of.tenant_id and (used_of.tenant_id = 'default' or t.tenant_id <> 'default')
                limit most
            ) t
        )
        when 'schedules' then (
            select count(*)
            from (
                select from shardclock.timers t
                where t.tenant_id = used_of.tenant_id and t.schedule is not null
                limit most
            ) t
        )
        when 'instances' then (
            select count(*)
            from (
                select
                from shardclock.definitions d
                cross join lateral (
                    select from shardclock.instances i
                    where i.definition_key = d.definition_key and (i.ended_at is null) is true
                    limit most
                ) i
                where d.tenant_id = used_of.tenant_id
                limit most
            ) i
        )
        when 'starts' then (
            select count(*)
            from (
                select from shardclock.deliveries d
                where d.tenant_id = used_of.tenant_id
                    and (d.target = 'process:instance' and d.process_instance_key is null) is true
                limit most + throws
            ) d
        ) - throws
        when 'tasks' then (
            select count(*)
            from (
                select from shardclock.tasks t
                where t.tenant_id = used_of.tenant_id and t.completed_at is null
                limit most
            ) t
        )
        when 'messages' then (
            select count(*)
            from (
                select from shardclock.messages m
                where m.tenant_id = used_of.tenant_id and m.expires_at > now()
                limit most
            ) m
        )
        when 'definitions' then (
            select count(*)
            from (
                select from shardclock.definitions d
                where d.tenant_id = used_of.tenant_id and d.deleted_at is null
                limit most
            ) d
        )
    end;
end
$$;

comment on function shardclock.used_of is 'Internal: Counts what a tenant has, up to a number.';

-- For a small quota, rows are counted up to the quota. A large quota is compared with the last count. An engine counts
-- instances, tasks and timers. Clients add the other resources also while no engine runs, so a client counts them, too.
create function shardclock.room_of(
    tenant_id text, resource text, out room bigint, out counted_at timestamptz
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    exact_max constant bigint := 1000;
    most constant bigint := shardclock.quota_of(tenant_id, resource);
    -- At other levels a row that another transaction has changed would make the caller's transaction fail.
    may_write constant boolean := current_setting('transaction_isolation') = 'read committed';
    counted bigint;
    age interval;
begin
    if most is null or most = 9223372036854775807 then
        return;
    end if;
    if most <= exact_max and not (resource = 'timers' and tenant_id = 'default') then
        room := greatest(0, most - shardclock.used_of(tenant_id, resource, most + 1));
        return;
    end if;
    select u.used, u.counted_at into counted, counted_at
    from shardclock.tenant_usage u
    where u.tenant_id = room_of.tenant_id and u.resource = room_of.resource;
    if not found then
        counted_at := '1970-01-01 00:00:00+00';
        -- Without the lock, the insert would wait until another transaction with the same row has ended.
        if may_write and pg_try_advisory_xact_lock(hashtextextended(tenant_id || ' ' || resource, 51)) then
            insert into shardclock.tenant_usage (tenant_id, resource) values (tenant_id, resource)
            on conflict do nothing;
        end if;
    end if;
    -- A count of 100,000 rows takes about 20 ms: so clients spend 2 % of the time on counts.
    age := (clock_timestamp() - counted_at) / greatest(1, coalesce(counted, 0) / 100000.0);
    if resource in ('starts', 'messages', 'definitions') and age > interval '1 second' then
        perform
        from shardclock.tenant_usage u
        where may_write and u.tenant_id = room_of.tenant_id and u.resource = room_of.resource
        for update skip locked;
        if found then
            update shardclock.tenant_usage u
            set used = shardclock.used_of(tenant_id, resource, most), counted_at = clock_timestamp()
            where u.tenant_id = room_of.tenant_id and u.resource = room_of.resource
            returning u.used, u.counted_at into counted, counted_at;
        elsif age > interval '5 seconds' then
            -- An open transaction may hold the row for hours. This transaction counts for itself.
            counted := shardclock.used_of(tenant_id, resource, most);
            counted_at := clock_timestamp();
        end if;
    end if;
    room := greatest(0, most - coalesce(counted, 0));
end
$$;

comment on function shardclock.room_of is 'Internal: Says how much more a tenant may have, null: no limit; and when that was counted, null: now.';

create function shardclock.check_quota(tenant_id text, resource text, more bigint default 1)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    room bigint := (shardclock.room_of(tenant_id, resource)).room;
begin
    if resource = 'instances' and more <= room then
        -- A start that waits for an engine is one instance, too.
        room := room + (shardclock.room_of(tenant_id, 'starts')).room - shardclock.quota_of(tenant_id, resource);
    end if;
    if room is null or more <= room then
        return;
    end if;
    raise exception 'tenant "%" may have % %, and has no room for % more: %, or ask the operator of the cluster for more (shardclock tenants set %)',
        left(tenant_id, 60), shardclock.quota_of(tenant_id, resource), case resource
            when 'timers' then 'pending timers'
            when 'instances' then 'instances that have not ended'
            when 'messages' then 'kept messages'
            when 'definitions' then 'versions of processes'
            else resource
        end, more, case resource
            when 'timers' then 'cancel some'
            when 'instances' then 'cancel some, or wait until some have ended'
            when 'messages' then 'keep messages for a shorter time'
            when 'definitions' then 'delete old versions'
            else 'end some'
        end, left(tenant_id, 60)
        using errcode = 'SC429', constraint = resource;
end
$$;

comment on function shardclock.check_quota is 'Internal: Refuses what a tenant has no room for.';

create function shardclock.check_kept_message()
returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    perform shardclock.check_quota(new.tenant_id, 'messages');
    return new;
end
$$;

comment on function shardclock.check_kept_message is 'Internal: Refuses a message that a tenant has no room for.';

create trigger messages_check_quota before insert on shardclock.messages
for each row execute function shardclock.check_kept_message();

create function shardclock.check_definition()
returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    perform shardclock.check_quota(new.tenant_id, 'definitions');
    if jsonb_path_exists(new.starts, '$[*] ? (@.kind == "timer")') then
        perform shardclock.check_quota(
            new.tenant_id, 'timers', jsonb_array_length(jsonb_path_query_array(new.starts, '$[*] ? (@.kind == "timer")'))
        );
    end if;
    return new;
end
$$;

comment on function shardclock.check_definition is
    'Internal: Refuses a version of a process that a tenant has no room for, or whose start timers it has no room for.';

create trigger definitions_check_quota before insert on shardclock.definitions
for each row execute function shardclock.check_definition();

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
        -- Waits for a concurrent start with the same key.
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
        -- A repeated start without a business key matches any: some callers know no business keys.
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
        -- A missing process has an SQLSTATE of its own, so that an API can tell it apart.
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
    perform shardclock.check_quota(tenant_id, 'instances');
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
errors: P0002 for a process or a version that is not deployed; 22023 for variables that are no object or have more than 1 MiB, a business_key that is too long, an idempotency_key that has started another process, or an instance with another business_key or none, or a process that only its message, signal or timer begins; SC429 if the tenant has as many instances as it may have
example: select shardclock.start_process('order', variables => '{"order": 42}', idempotency_key => 'order-42', business_key => 'order-42');
$$;

-- An incident of a signal that waits for room is resolved as any other.
create or replace function shardclock.resolve_incident(instance_key bigint, token bigint, tenant_id text default null)
returns text
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
declare
    signal bigint;
    has_stopped boolean;
begin
    select max(n.signal_key), bool_or(n.signal_key = 0) into signal, has_stopped
    from shardclock.incidents n
    join shardclock.instances i on i.instance_key = n.instance_key
    where n.instance_key = resolve_incident.instance_key
        and n.token = resolve_incident.token
        and (resolve_incident.tenant_id is null or i.tenant_id = resolve_incident.tenant_id);
    if signal is null then
        return 'NOT_FOUND';
    end if;
    if not has_stopped then
        -- The signal waits for room in a quota: an engine tries it again now.
        update shardclock.deliveries d
        set next_attempt_at = least(d.next_attempt_at, now())
        where d.timer_key = signal and d.process_instance_key = resolve_incident.instance_key
            and (d.target = 'process:instance') is true;
        if found then
            return 'SENT';
        end if;
        raise exception 'the incident of token % is a signal that no engine could take: send it again (shardclock dead-letters redrive %)',
            token, signal
            using errcode = 'invalid_parameter_value';
    end if;
    return shardclock.signal_instance(instance_key, tenant_id, '{"kind": "retried"}', token);
end
$$;

-- Finds an instance that runs, or whose beginning waits for an engine; returns its tenant, null if there is none. A signal
-- that is sent in parts is no instance.
create or replace function shardclock.tenant_of_instance(instance_key bigint, tenant_id text)
returns text
language sql
stable
begin atomic
    select s.tenant_id
    from (
        select i.tenant_id
        from shardclock.instances i
        where i.instance_key = tenant_of_instance.instance_key and i.ended_at is null
        union all
        select d.tenant_id
        from shardclock.deliveries d
        where d.timer_key = tenant_of_instance.instance_key
            and d.target = 'process:instance' and d.process_instance_key is null
            and d.payload ->> 'kind' is distinct from 'thrown'
    ) s
    where tenant_of_instance.tenant_id is null or s.tenant_id = tenant_of_instance.tenant_id
    limit 1;
end;

-- Two may cancel an instance whose start was given up. The second looks for the instance, and finds none yet. Then the
-- first one writes it, and the dead letter goes; the second finds no dead letter either. So it looks once more.
create or replace function shardclock.cancel_instance(instance_key bigint, tenant_id text default null)
returns text
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
declare
    ended_as text;
    is_sought_again boolean := false;
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
            and d.payload ->> 'kind' is distinct from 'thrown'
            and (cancel_instance.tenant_id is null or d.tenant_id = cancel_instance.tenant_id);
        if found then
            if shardclock.cancel_start(instance_key) then
                return 'SENT';
            end if;
            -- Somebody has redriven it meanwhile: it may have begun.
        elsif is_sought_again then
            return 'NOT_FOUND';
        else
            is_sought_again := true;
        end if;
    end loop;
end
$$;
