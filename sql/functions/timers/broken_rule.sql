-- Returns the refusal for the first rule that a row breaks; null: the row breaks no rule.
--
-- Postgres parses the body when the function is created, so a client's `search_path` can't change its operators. A `set
-- search_path` on the trigger would cost a microsecond for each row.
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
    -- Python's datetime ends with the year 9999, and asyncpg writes the last moment of this year as infinity. If
    -- asyncpg can't decode one date, the whole batch fails.
    select case
        when t.timer_key < 1
            then array['invalid_timer_key', format('timer_key %s must be at least 1', t.timer_key)]
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
                'invalid_row',
                'a paused timer has its due date in paused_due_date, and no lease: pause it with '
                'shardclock.pause_timer'
            ]
        when num_nonnulls(t.resume_at, t.resume_missed) > 0
            and (
                t.paused_due_date is not null
                and t.resume_at >= '0001-01-01 00:00:00+00' and t.resume_at < '9999-12-31 23:59:59.999998+00'
                and coalesce(t.resume_missed, 'skip') in ('fire_once', 'fire_all', 'skip')
            ) is not true
            then array[
                'invalid_row',
                format(
                    'resume_at %L is the end of a pause, in the years 1 to 9999, and resume_missed is its choice: pause the '
                    'timer with shardclock.pause_timer', t.resume_at
                )
            ]
        when t.tenant_id <> 'default' and (length(t.tenant_id) not between 1 and 200 or t.tenant_id ~ '[[:cntrl:]]')
            then array[
                'invalid_tenant_id',
                format(
                    'tenant_id %L must have 1 to 200 characters, none of them a control character',
                    left(t.tenant_id, 60)
                )
            ]
        when length(t.name) not between 1 and 200 or t.name ~ '[[:cntrl:]]'
            then array[
                'invalid_name',
                format('name %L must have 1 to 200 characters, none of them a control character', left(t.name, 60))
            ]
        when length(t.target_element_id) not between 1 and 200
            then array[
                'invalid_target_element_id',
                format('target_element_id %L must have 1 to 200 characters', left(t.target_element_id, 60))
            ]
        when t.timer_type not in ('BOUNDARY', 'INTERMEDIATE', 'START_EVENT', 'USER')
            then array[
                'invalid_timer_type',
                format(
                    'timer_type %L is unknown: use BOUNDARY, INTERMEDIATE, START_EVENT or USER',
                    left(t.timer_type, 60)
                )
            ]
        when t.target <> 'log' and (length(t.target) not between 1 and 200 or t.target ~ '[[:cntrl:]]')
            then array[
                'invalid_target',
                format(
                    'target %L must have 1 to 200 characters, none of them a control character', left(t.target, 60)
                )
            ]
        when t.zone !~ '^[A-Za-z][A-Za-z0-9_+/-]{0,63}$'
            then array[
                'invalid_zone',
                format('zone %L is unknown: write an IANA name such as UTC or Europe/Berlin', left(t.zone, 60))
            ]
        when t.missed not in ('fire_once', 'fire_all', 'skip')
            then array[
                'invalid_missed',
                format('missed %L is unknown: use fire_once, fire_all or skip', left(t.missed, 60))
            ]
        when t.missed_once not in ('fire_once', 'fire_all', 'skip') or num_nonnulls(t.missed_once, t.period_us) = 2
            then array[
                'invalid_row',
                format(
                    'missed_once %L is the choice of a resume: call shardclock.resume_timer, which clears period_us, too',
                    left(t.missed_once, 60)
                )
            ]
        when octet_length(t.payload::text) > 65536
            then array[
                'invalid_payload',
                format('payload has %s bytes: the limit is 65536 (64 KiB)', octet_length(t.payload::text))
            ]
        when shardclock.is_too_deep(t.payload)
            then array[
                'invalid_payload',
                shardclock.too_deep(case when t.target ^@ 'job:' then 'config' else 'payload' end, t.payload)
            ]
        when t.occurrence < 1 or not (t.repetitions = -1 or (t.repetitions >= 1 and t.occurrence <= t.repetitions))
            then array[
                'invalid_occurrence',
                format(
                    'occurrence %s of %s is none: repetitions are -1 (without end) or a number that occurrence reaches',
                    t.occurrence, t.repetitions
                )
            ]
        -- The schedule is not parsed here, because only Python code (timers.schedule) can parse it; a shard pauses a
        -- row with an invalid schedule.
        when length(t.schedule) not between 1 and 200 or t.schedule ~ '[[:cntrl:]]'
            then array[
                'invalid_schedule',
                format(
                    'schedule %L must have 1 to 200 characters, none of them a control character',
                    left(t.schedule, 60)
                )
            ]
        when t.schedule is null
            and (
                t.repetitions <> 1 or t.occurrence <> 1
                or num_nonnulls(t.anchor, t.kept_due_date, t.period_us, t.missed_once) > 0
            )
            then array[
                'invalid_row',
                'repetitions, occurrence, anchor, kept_due_date, period_us and missed_once are for a schedule: '
                'leave them out, or give the schedule'
            ]
        when t.period_us is not null and (t.period_us >= 1 and t.occurrence >= t.anchor_occurrence - 1) is not true
            then array[
                'invalid_period_us',
                format(
                    'period_us %s needs at least 1 microsecond, and a schedule with an anchor that has a number: '
                    'leave it out, a shard knows it from the schedule',
                    t.period_us
                )
            ]
        when t.schedule is not null and (t.anchor is null or t.name is null)
            then array['invalid_row', format('schedule %L needs an anchor and a name', left(t.schedule, 60))]
    end;
end;
