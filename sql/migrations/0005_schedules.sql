-- Schedules of every kind: calendars, cron, time zones; what to do about missed runs; and timers that are paused.
--
-- The checks on schedules only grow wider here, so the rows that are there need no reading: `not valid` holds new ones.

alter table shardclock.timers
    -- Occurrence n of a repeat is due at anchor + (n - anchor_occurrence) periods; null until a shard has planned it.
    add column anchor_occurrence bigint default 0,
    add column missed text not null default 'fire_once',
    -- A paused timer keeps its due date here; `due_date` then lies at the end of time, where no shard looks.
    add column paused_due_date timestamptz;

alter table shardclock.timers
    drop constraint zone_is_known,
    drop constraint schedule_is_a_repeat_of_fixed_length,
    add constraint zone_is_1_to_64_characters check (zone ~ '^[A-Za-z][A-Za-z0-9_+/-]{0,63}$') not valid,
    -- What a schedule means is read in one place only, timers.schedule: a shard pauses the row that it can't read.
    add constraint schedule_is_1_to_200_characters check (
        length(schedule) between 1 and 200 and schedule !~ '[[:cntrl:]]'
    ) not valid,
    add constraint missed_is_known check (missed in ('fire_once', 'fire_all', 'skip')) not valid,
    add constraint pause_is_whole check (
        (paused_due_date is not null) = (due_date = '9999-12-31 23:59:59.999998+00')
        and (paused_due_date is null or claimed_by is null)
    ) not valid,
    add constraint paused_due_date_is_in_years_1_to_9999 check (
        paused_due_date >= '0001-01-01 00:00:00+00' and paused_due_date < '9999-12-31 23:59:59.999999+00'
    ) not valid;

comment on column shardclock.timers.anchor is
    'Where the schedule''s grid is counted from: for a repeat its start, for cron the date of this occurrence.';
comment on column shardclock.timers.anchor_occurrence is
    'The number of the occurrence at the anchor; null: a shard has yet to plan this schedule.';
comment on column shardclock.timers.missed is
    'What becomes of occurrences that were missed: fire_once for all of them, fire_all, or skip.';
comment on column shardclock.timers.paused_due_date is
    'The due date of a paused timer, whose due_date is parked at the end of time; null: it is not paused.';

create or replace function shardclock.check_due_date(due_date timestamptz, field text, given text)
returns timestamptz
language plpgsql
immutable
as $$
begin
    -- The last moment but one is where paused timers are parked.
    if due_date >= '0001-01-01 00:00:00+00' and due_date < '9999-12-31 23:59:59.999998+00' then
        return due_date;
    end if;
    raise exception '% "%" is out of range: a timer is due in the years 1 to 9999', field, left(given, 60)
        using errcode = 'invalid_parameter_value';
end
$$;

create table shardclock.zones (
    zone text not null,

    constraint zones_pkey primary key (zone)
);

insert into shardclock.zones (zone)
select name
from pg_timezone_names
where name !~ '^(posix|right)/' and name not in ('localtime', 'posixrules', 'Factory')
on conflict do nothing;

comment on table shardclock.zones is 'The IANA time zones that this Postgres knows; looking one up here is fast, and takes no abbreviation.';

-- As timers.zone.to_utc: a time that the clock skips moves forward by as much; of a time that comes twice, the first.
create function shardclock.to_utc(local timestamp, zone text)
returns timestamptz
language sql
immutable
as $$
    select case
        when zone = 'UTC' then local at time zone 'UTC'
        else (
            with clock as (
                -- No zone is more than 15 hours from UTC, so these two lie on either side of whatever change is near.
                select
                    local - ((t.before at time zone zone) - (t.before at time zone 'UTC')) as by_offset_before,
                    local - ((t.after at time zone zone) - (t.after at time zone 'UTC')) as by_offset_after
                from (
                    select
                        (local - interval '26 hours') at time zone 'UTC' as before,
                        (local + interval '26 hours') at time zone 'UTC' as after
                ) t
            )
            select coalesce(
                (
                    select min(c.moment)
                    from clock
                    cross join lateral (
                        values (by_offset_before at time zone 'UTC'), (by_offset_after at time zone 'UTC')
                    ) as c (moment)
                    where c.moment at time zone zone = local
                ),
                (select by_offset_before at time zone 'UTC' from clock)
            )
        )
    end
$$;

-- As timers.duration.later: months and days on the wall clock, then elapsed time.
create function shardclock.later(moment timestamptz, length interval, zone text)
returns timestamptz
language sql
immutable
as $$
    select case
        when zone = 'UTC' then (moment at time zone 'UTC' + length) at time zone 'UTC'
        when c.calendar = interval '0' then moment + length
        else shardclock.to_utc(moment at time zone zone + c.calendar, zone) + (length - c.calendar)
    end
    from (
        select make_interval(
            years => extract(year from length)::integer,
            months => extract(month from length)::integer,
            days => extract(day from length)::integer
        ) as calendar
    ) c
$$;

create or replace view shardclock.timer_history as
select
    timer_key, case when paused_due_date is null then 'PENDING' else 'PAUSED' end as state,
    tenant_id, name, timer_type, process_instance_key, element_instance_key,
    target_element_id, coalesce(paused_due_date, due_date) as due_date, created_at, schedule, occurrence, target, payload,
    null::timestamptz as ended_at, claimed_by as holder, null::jsonb as detail, zone, missed
from shardclock.timers
union all
select
    timer_key, intent, tenant_id, name, timer_type, process_instance_key, element_instance_key,
    target_element_id, due_date, created_at, schedule, occurrence, target, payload,
    recorded_at, holder, detail, null, null
from shardclock.command_log
where intent in ('TRIGGERED', 'CANCELED') or (intent = 'SKIPPED' and detail ->> 'policy' = 'skip');

comment on view shardclock.timer_history is
    'Every timer, past and present, with its state: PENDING, PAUSED, TRIGGERED, CANCELED or SKIPPED (missed, under skip).';
comment on column shardclock.command_log.intent is 'TRIGGERED, CANCELED, RESCHEDULED, SKIPPED, PAUSED or RESUMED.';
comment on column shardclock.command_log.detail is
    'CANCELED, PAUSED: reason, by. RESCHEDULED: due_date, schedule, by. SKIPPED: count, the occurrences not fired from this one on; policy.';
