-- What a timer must be is said by a trigger, in sentences. As check constraints, each statement read the rules from the
-- catalog and planned them anew: 50 µs, eight times what the row took.

alter table shardclock.timers
    drop constraint timer_key_is_positive,
    drop constraint due_date_is_in_years_1_to_9999,
    drop constraint created_at_is_in_years_1_to_9999,
    drop constraint anchor_is_in_years_1_to_9999,
    drop constraint paused_due_date_is_in_years_1_to_9999,
    drop constraint pause_is_whole,
    drop constraint tenant_id_is_1_to_200_characters,
    drop constraint name_is_1_to_200_characters,
    drop constraint target_element_id_is_1_to_200_characters,
    drop constraint timer_type_is_known,
    drop constraint target_is_known,
    drop constraint zone_is_1_to_64_characters,
    drop constraint missed_is_known,
    drop constraint payload_is_at_most_64_kib,
    drop constraint occurrence_is_within_repetitions,
    drop constraint schedule_is_1_to_200_characters,
    drop constraint schedule_is_whole;

create function shardclock.out_of_range(moment timestamptz, field text)
returns text[]
language sql
immutable
as $$
    select array[
        field || '_is_in_years_1_to_9999',
        format('%s "%s" is out of range: a timer''s dates are in the years 1 to 9999', field, moment)
    ]
$$;

-- A row that breaks a rule is refused as by a check constraint of that name. Nulls are for `not null` to refuse.
create function shardclock.check_timer()
returns trigger
language plpgsql
as $$
declare
    broken text[]; -- the rule's name, and the sentence
begin
    -- Python's datetime ends with year 9999 (and asyncpg writes its last moment as infinity); a row it can't decode
    -- would fail its whole batch.
    broken := case
        when new.timer_key < 1
            then array['timer_key_is_positive', format('timer_key %s must be at least 1', new.timer_key)]
        when new.due_date < '0001-01-01 00:00:00+00' or new.due_date >= '9999-12-31 23:59:59.999999+00'
            then shardclock.out_of_range(new.due_date, 'due_date')
        when new.created_at < '0001-01-01 00:00:00+00' or new.created_at >= '9999-12-31 23:59:59.999999+00'
            then shardclock.out_of_range(new.created_at, 'created_at')
        when new.anchor < '0001-01-01 00:00:00+00' or new.anchor >= '9999-12-31 23:59:59.999999+00'
            then shardclock.out_of_range(new.anchor, 'anchor')
        when new.paused_due_date < '0001-01-01 00:00:00+00' or new.paused_due_date >= '9999-12-31 23:59:59.999999+00'
            then shardclock.out_of_range(new.paused_due_date, 'paused_due_date')
        when (new.paused_due_date is not null) <> (new.due_date = '9999-12-31 23:59:59.999998+00')
            or (new.paused_due_date is not null and new.claimed_by is not null)
            then array['pause_is_whole', 'a paused timer has its due date in paused_due_date, and nobody leases it: pause it with shardclock.pause_timer']
        when new.tenant_id <> 'default' and (length(new.tenant_id) not between 1 and 200 or new.tenant_id ~ '[[:cntrl:]]')
            then array['tenant_id_is_1_to_200_characters', format('tenant_id "%s" must have 1 to 200 characters, none of them a control character', left(new.tenant_id, 60))]
        when length(new.name) not between 1 and 200 or new.name ~ '[[:cntrl:]]'
            then array['name_is_1_to_200_characters', format('name "%s" must have 1 to 200 characters, none of them a control character', left(new.name, 60))]
        when length(new.target_element_id) not between 1 and 200
            then array['target_element_id_is_1_to_200_characters', format('target_element_id "%s" must have 1 to 200 characters', left(new.target_element_id, 60))]
        when new.timer_type not in ('BOUNDARY', 'INTERMEDIATE', 'START_EVENT', 'USER')
            then array['timer_type_is_known', format('timer_type "%s" is unknown: use BOUNDARY, INTERMEDIATE, START_EVENT or USER', left(new.timer_type, 60))]
        when new.target <> 'log'
            then array['target_is_known', format('target "%s" is unknown: the only target is log', left(new.target, 60))]
        when new.zone !~ '^[A-Za-z][A-Za-z0-9_+/-]{0,63}$'
            then array['zone_is_1_to_64_characters', format('zone "%s" is unknown: write an IANA name such as UTC or Europe/Berlin', left(new.zone, 60))]
        when new.missed not in ('fire_once', 'fire_all', 'skip')
            then array['missed_is_known', format('missed "%s" is unknown: use fire_once, fire_all or skip', left(new.missed, 60))]
        when octet_length(new.payload::text) > 65536
            then array['payload_is_at_most_64_kib', format('payload has %s bytes: the limit is 65536 (64 KiB)', octet_length(new.payload::text))]
        when new.occurrence < 1 or not (new.repetitions = -1 or (new.repetitions >= 1 and new.occurrence <= new.repetitions))
            then array['occurrence_is_within_repetitions', format('occurrence %s of %s is none: repetitions are -1 (without end) or a number that occurrence reaches', new.occurrence, new.repetitions)]
        -- What a schedule means is read in one place only, timers.schedule: a shard pauses the row that it can't read.
        when length(new.schedule) not between 1 and 200 or new.schedule ~ '[[:cntrl:]]'
            then array['schedule_is_1_to_200_characters', format('schedule "%s" must have 1 to 200 characters, none of them a control character', left(new.schedule, 60))]
        when new.schedule is null and (new.repetitions <> 1 or new.occurrence <> 1 or new.anchor is not null)
            then array['schedule_is_whole', 'repetitions, occurrence and anchor are for a schedule: leave them out, or give the schedule']
        when new.schedule is not null and (new.anchor is null or new.name is null)
            then array['schedule_is_whole', format('schedule "%s" needs an anchor and a name', left(new.schedule, 60))]
    end;
    if broken is null then
        return new;
    end if;
    raise exception '%', broken[2]
        using errcode = 'check_violation', constraint = broken[1], schema = tg_table_schema, table = tg_table_name;
end
$$;

create trigger check_new_timer
before insert on shardclock.timers
for each row execute function shardclock.check_timer();

-- After, for one before would lock each row that a shard leases, whatever its columns. A lease changes nothing else, so
-- claims keep their two check constraints, which are short.
create trigger check_changed_timer
after update of
    timer_key, process_instance_key, element_instance_key, due_date, created_at, anchor, anchor_occurrence,
    paused_due_date, occurrence, repetitions, tenant_id, timer_type, target, zone, missed, target_element_id, name,
    schedule, payload
on shardclock.timers
for each row execute function shardclock.check_timer();

-- `perform` starts an executor, for 9 µs; UTC needs no look into the table of zones.
do $do$
declare
    was constant text := 'perform shardclock.check_zone(zone);';
    definition constant text := pg_get_functiondef('shardclock.schedule_timer'::regproc);
begin
    if strpos(definition, was) = 0 then
        raise exception 'shardclock.schedule_timer is not as it was made: it has no "%"', was;
    end if;
    execute replace(definition, was, format('if zone is distinct from ''UTC'' then %s end if;', was));
end
$do$;
