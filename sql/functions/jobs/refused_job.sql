-- Returns the refusal of a job's description; null: the description is valid.
--
-- in:    spec jsonb
-- out:   text
-- locks: nothing
-- index: jobs_pkey
create or replace function shardclock.refused_job(spec jsonb)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    fields constant jsonb := '{
        "name": "string", "function": "string", "every_s": "number", "schedule": "string", "zone": "string",
        "missed": "string", "overlap": "string", "priority": "number", "policy": "object", "disabled": "boolean"
    }';
    wrong text;
    known shardclock.jobs;
begin
    if jsonb_typeof(spec) is distinct from 'object' then
        return 'job is refused: it must be an object of its fields';
    end if;
    select
        case
            when not fields ? s.key
                then format(
                    'field %L is unknown: the fields are name, function, every_s, schedule, zone, missed, overlap, '
                    'priority, config, policy and disabled', left(s.key, 60)
                )
            else format('%s %s is refused: it must be a JSON %s', s.key, left(s.value::text, 60), fields ->> s.key)
        end
    into wrong
    from jsonb_each(spec) s
    where s.key <> 'config'
        and (not fields ? s.key or jsonb_typeof(s.value) not in (fields ->> s.key, 'null'))
    order by s.key
    limit 1;
    select j.* into known from shardclock.jobs j where j.name = spec ->> 'name';
    wrong := case
        when wrong is not null then wrong
        when (spec ->> 'name' ~ '^[a-z0-9][a-z0-9_.-]{0,99}$') is not true
            then format(
                'name %L must have 1 to 100 characters of a-z, 0-9, _ . and -, and begin with a letter or digit',
                left(spec ->> 'name', 60)
            )
        when (spec ->> 'function' ~ '^[^:[:space:][:cntrl:]]{1,200}:[^:[:space:][:cntrl:]]{1,200}$') is not true
            then format('function %L must be package.module:function', left(spec ->> 'function', 60))
        when known.declared is not null and known.withdrawn_at is null
            then format(
                'name %L belongs to a job that an app declares: change it there, or give this one another name', known.name
            )
        when known.declared is not null
            then format(
                'name %L belongs to a job that an app had declared: remove it (shardclock jobs remove), or give this one '
                'another name', known.name
            )
        when spec ->> 'every_s' is not null and spec ->> 'schedule' is not null
            then 'give every_s or schedule, or neither: then it runs on request'
        when (spec ->> 'every_s')::numeric not between 0.1 and 31536000
            then format('every_s %s must be from 0.1 s to 365 days', left(spec ->> 'every_s', 60))
        when spec ->> 'missed' not in ('fire_once', 'fire_all', 'skip')
            then format('missed %L is unknown: use fire_once, fire_all or skip', left(spec ->> 'missed', 60))
        when spec ->> 'overlap' not in ('skip', 'queue', 'replace')
            then format('overlap %L is unknown: use skip, queue or replace', left(spec ->> 'overlap', 60))
        when (spec ->> 'priority')::numeric not in (1, 2, 3, 4)
            then format('priority %s must be from 1 to 4', left(spec ->> 'priority', 60))
        when octet_length((spec -> 'config')::text) > 65536
            then format('config has %s bytes: the limit is 65536 (64 KiB)', octet_length((spec -> 'config')::text))
        when length((spec -> 'policy')::text) > 2000 then 'policy has more than 2,000 characters'
        when shardclock.end_of_rule(spec ->> 'schedule') is not null
            then shardclock.end_of_rule(spec ->> 'schedule')
    end;
    if wrong is not null or spec ->> 'schedule' is null and spec ->> 'zone' is null then
        return wrong;
    end if;
    perform shardclock.check_zone(coalesce(spec ->> 'zone', 'UTC'));
    if spec ->> 'schedule' is not null then
        perform shardclock.check_schedule(spec ->> 'schedule', coalesce(spec ->> 'zone', 'UTC'));
    end if;
    return null;
exception
    when invalid_parameter_value then
        return sqlerrm;
end
$$;

comment on function shardclock.refused_job is 'Internal: Returns the refusal of a job''s description; null: the description is accepted.';
