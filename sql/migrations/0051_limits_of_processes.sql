-- Limits of JSON, and of what processes keep for a tenant.
--
-- JSON has one depth wherever it comes in: a row that a client can't read would hide all others of its answer. Python has
-- the same limit in timers/payload.py.

create function shardclock.is_too_deep(document jsonb)
returns boolean
language sql
immutable
begin atomic
    -- The root is at level 0, so a list or an object at level 100 is the 101st of those around each other.
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
        -- Only timers.schedule parses schedules: a shard pauses a row whose schedule can't be parsed.
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
