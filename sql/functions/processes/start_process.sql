-- Starts an instance of a process; a repeated call with the same idempotency key starts nothing.
--
-- in:    process_id text, variables jsonb, tenant_id text, version integer, idempotency_key text, business_key text
-- out:   bigint
-- locks: the new rows, and the idempotency key until the transaction ends
-- index: definitions_by_process, process_starts_pkey
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
    definition bigint;
    starts_by_hand boolean;
    before shardclock.process_starts;
    begun_by text;
    key bigint;
begin
    select d.definition_key, d.starts_by_hand into definition, starts_by_hand
    from shardclock.definitions d
    where d.tenant_id = start_process.tenant_id
        and d.process_id = start_process.process_id
        and d.deleted_at is null
        and (start_process.version is null or d.version = start_process.version)
    order by d.version desc
    limit 1;
    perform shardclock.check_variables(variables);
    if length(business_key) not between 1 and 255 then
        raise exception 'business_key % is refused: give 1 to 255 characters', quote_literal(left(business_key, 60))
            using errcode = 'invalid_parameter_value', constraint = 'invalid_business_key';
    end if;
    if idempotency_key is not null then
        -- This lock waits for a concurrent start with the same key.
        perform pg_advisory_xact_lock(hashtextextended(tenant_id || ' ' || idempotency_key, 20));
        select s.* into before
        from shardclock.process_starts s
        where s.tenant_id = start_process.tenant_id and s.idempotency_key = start_process.idempotency_key
            -- An older row has expired, but is not deleted yet.
            and s.asked_at > now() - interval '1 day';
        if before.process_id <> start_process.process_id then
            raise exception 'idempotency_key % has started %: use another key', quote_literal(left(idempotency_key, 60)),
                format('the process %L', left(before.process_id, 60))
                using errcode = 'invalid_parameter_value', constraint = 'start_key_used';
        end if;
        -- A repeated call may omit the business key, because some callers don't know it.
        if before.instance_key is not null and business_key <> coalesce(before.business_key, '') then
            raise exception 'idempotency_key % has started %: use another key', quote_literal(left(idempotency_key, 60)),
                'an instance ' || coalesce(
                    'with the business key ' || quote_literal(left(before.business_key, 60)), 'without a business key'
                )
                using errcode = 'invalid_parameter_value', constraint = 'start_key_used';
        end if;
        if before.instance_key is not null then
            return before.instance_key;
        end if;
    end if;
    if definition is null then
        if version is not null and shardclock.find_definition(tenant_id, process_id) is not null then
            raise exception 'process % has no version %: leave the version out for the newest',
                quote_literal(left(process_id, 60)), version
                using errcode = 'no_data_found', constraint = 'unknown_version';
        end if;
        raise exception 'process % is unknown: %', quote_literal(left(process_id, 60)), coalesce(
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
            using errcode = 'no_data_found', constraint = 'unknown_process';
    end if;
    if not starts_by_hand then
        select string_agg(s.sentence, ' or ' order by s.sentence) into begun_by
        from (
            select distinct case s.start ->> 'kind'
                when 'timer' then 'its timer'
                else format('the %s %L', s.start ->> 'kind', left(s.start ->> 'name', 60))
            end as sentence
            from shardclock.definitions d
            cross join lateral jsonb_array_elements(d.starts) as s (start)
            where d.definition_key = definition
            order by sentence
            limit 5
        ) s;
        if begun_by is not null then
            raise exception 'process % has no start event without a trigger: it begins by %',
                quote_literal(left(process_id, 60)), begun_by
                using errcode = 'invalid_parameter_value', constraint = 'process_without_start';
        end if;
    end if;
    if not shardclock.has_quota_for_start(tenant_id) then
        perform shardclock.check_process_quota(tenant_id, 'instances');
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
engine begins it after the commit.

process_id: the id of a deployed process
variables: a JSON object, the first variables of the instance
tenant_id: the tenant of the process
version: the version; null: the newest
idempotency_key: a repeated call with this key within a day starts nothing and returns the same instance, even without a business_key; null: each call starts an instance
business_key: the caller's own name for the instance, 1 to 255 characters, for searches; several instances may have the same business_key; null: none
returns: the instance_key
errors: P0002 for a process or a version that is not deployed; 22023 for variables that are not an object or have more than 1 MiB, for a business_key that is too long, for an idempotency_key that was used for another process, or with another business_key or none, and for a process that only a message, a signal or a timer can start; SC429 if the tenant's quota of instances is used up
example: select shardclock.start_process('order', variables => '{"order": 42}', idempotency_key => 'order-42', business_key => 'order-42');
$$;
