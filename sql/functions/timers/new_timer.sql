-- Returns the validated row of a new timer, with its due date and a new key; does not insert the row.
--
-- in:    due_date timestamptz, delay text, schedule text, name text, tenant_id text, payload jsonb, target text,
--        timer_type text, target_element_id text, process_instance_key bigint, element_instance_key bigint, zone text,
--        missed text
-- out:   shardclock.timers
-- locks: nothing; draws a key
-- index: none
create or replace function shardclock.new_timer(
    due_date timestamptz,
    delay text,
    schedule text,
    name text,
    tenant_id text,
    payload jsonb,
    target text,
    timer_type text,
    target_element_id text,
    process_instance_key bigint,
    element_instance_key bigint,
    zone text,
    missed text
)
returns shardclock.timers
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    wanted shardclock.timers;
    rule text[];
    refusal text[];
    why_not text;
begin
    if num_nonnulls(due_date, delay, schedule) <> 1 then
        raise exception 'give exactly one of %, not %', 'due_date, delay and schedule',
            num_nonnulls(due_date, delay, schedule)
            using errcode = 'invalid_parameter_value', constraint = 'needs_one_moment';
    end if;

    refusal := case
        when coalesce(length(tenant_id), 0) not between 1 and 200 or tenant_id ~ '[[:cntrl:]]'
            then array[
                'invalid_tenant_id',
                format(
                    'tenant_id %L must have 1 to 200 characters, none of them a control character', left(tenant_id, 60)
                )
            ]
        when length(name) not between 1 and 200 or name ~ '[[:cntrl:]]'
            then array[
                'invalid_name',
                format('name %L must have 1 to 200 characters, none of them a control character', left(name, 60))
            ]
        when length(target_element_id) not between 1 and 200 or target_element_id ~ '[[:cntrl:]]'
            then array[
                'invalid_target_element_id',
                format(
                    'target_element_id %L must have 1 to 200 characters, none of them a control character',
                    left(target_element_id, 60)
                )
            ]
        when process_instance_key < 1
            then array[
                'invalid_process_instance_key', format('process_instance_key %s must be at least 1', process_instance_key)
            ]
        when element_instance_key < 1
            then array[
                'invalid_element_instance_key', format('element_instance_key %s must be at least 1', element_instance_key)
            ]
        when target is null
            then array['invalid_target', 'target null is unknown: leave it out, or name one']
        when shardclock.reserved('name', name) is not null
            then shardclock.reserved('name', name)
        when shardclock.reserved('target', target) is not null
            then shardclock.reserved('target', target)
        when target <> 'log' and shardclock.unknown_target(target, tenant_id) is not null
            then shardclock.unknown_target(target, tenant_id)
        when timer_type is null or timer_type not in ('BOUNDARY', 'INTERMEDIATE', 'START_EVENT', 'USER')
            then array[
                'invalid_timer_type',
                format(
                    'timer_type %L is unknown: use BOUNDARY, INTERMEDIATE, START_EVENT or USER', left(timer_type, 60)
                )
            ]
        when octet_length(payload::text) > 65536
            then array[
                'invalid_payload',
                format('payload has %s bytes: the limit is 65536 (64 KiB)', octet_length(payload::text))
            ]
        when missed is null or missed not in ('fire_once', 'fire_all', 'skip')
            then array[
                'invalid_missed', format('missed %L is unknown: use fire_once, fire_all or skip', left(missed, 60))
            ]
        when missed <> 'fire_once' and schedule is null
            then array['invalid_missed', format('missed %L needs a schedule: leave it out', missed)]
    end;
    if refusal is not null then
        raise exception '%', refusal[2] using errcode = 'invalid_parameter_value', constraint = refusal[1];
    end if;
    if zone is distinct from 'UTC' then perform shardclock.check_zone(zone); end if;

    wanted.timer_key := nextval('shardclock.timer_key_seq');
    wanted.created_at := now();
    wanted.process_instance_key := process_instance_key;
    wanted.element_instance_key := element_instance_key;
    wanted.tenant_id := tenant_id;
    wanted.timer_type := timer_type;
    wanted.target := target;
    wanted.target_element_id := target_element_id;
    wanted.name := name;
    wanted.payload := payload;
    wanted.occurrence := 1;
    wanted.repetitions := 1;
    wanted.anchor_occurrence := 0;

    if schedule is null then
        wanted.zone := nullif(zone, 'UTC');
        wanted.due_date := case
            when delay is null then shardclock.check_due_date(due_date, 'due_date', due_date::text)
            else shardclock.delay_from_now(delay, zone, 'delay')
        end;
        return wanted;
    end if;

    wanted.schedule := schedule;
    wanted.zone := zone;
    wanted.missed := missed;
    wanted.anchor := now();
    rule := regexp_match(
        schedule,
        '^R(-1|[0-9]{0,9})/(P(?=.)([0-9]{1,5}W)?([0-9]{1,6}D)?'
        '(T(?=[0-9])([0-9]{1,7}H)?([0-9]{1,9}M)?([0-9]{1,10}([.,][0-9]{1,9})?S)?)?)$'
    );
    if rule is null or (zone <> 'UTC' and rule[2] !~ '^PT') then
        perform shardclock.check_schedule(schedule, zone);
        wanted.zone := shardclock.agreed_zone(schedule, zone);
        -- The new schedule is due immediately, so that a shard claims the schedule and computes its first due date,
        -- without firing.
        wanted.due_date := now();
        wanted.repetitions := -1;
        wanted.anchor_occurrence := null;
        return wanted;
    end if;
    if rule[2] !~ '[1-9]' then
        raise exception 'schedule %', shardclock.period_refusal(schedule, rule[2])
            using errcode = 'invalid_parameter_value', constraint = 'invalid_schedule';
    end if;
    -- Rn fires n times, R0 once. R and R-1 fire without end.
    wanted.repetitions := case rule[1] when '' then -1 when '0' then 1 else rule[1]::bigint end;
    wanted.repetitions := case wanted.repetitions when 0 then 1 else wanted.repetitions end;
    wanted.due_date := shardclock.delay_from_now(rule[2], 'UTC', 'schedule');
    why_not := shardclock.frequency_refusal(schedule, rule[1], extract(epoch from wanted.due_date - now()));
    if why_not is not null then
        raise exception 'schedule %', why_not
            using errcode = 'invalid_parameter_value', constraint = 'invalid_schedule';
    end if;
    return wanted;
end
$$;
