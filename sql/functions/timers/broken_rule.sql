-- Says the first rule that a row breaks, and the sentence for it; null: it breaks none.
--
-- The body is parsed once, when the function is made, so a client's `search_path` can't change the meaning of its
-- operators. The trigger's plan inlines it; a `set search_path` on the trigger would cost a microsecond for each row.
--
-- in:    t shardclock.timers
-- out:   text[]
-- locks: nothing
-- index: none
-- needs: is_too_deep, out_of_range, too_deep
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
