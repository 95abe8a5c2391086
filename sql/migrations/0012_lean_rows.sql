-- A plain timer keeps nothing that only schedules need: it is inserted with a sixth less of write-ahead log.

alter table shardclock.timers
    alter column zone drop not null,
    alter column zone drop default,
    alter column missed drop not null,
    alter column missed drop default;

comment on column shardclock.timers.zone is 'The IANA zone on whose clock months, days and cron are counted; null is UTC.';
comment on column shardclock.timers.missed is
    'What becomes of occurrences that were missed: fire_once for all of them, fire_all, or skip; null is fire_once.';

create or replace function shardclock.later(moment timestamptz, length interval, zone text)
returns timestamptz
language sql
immutable
as $$
    select case
        when coalesce(zone, 'UTC') = 'UTC' then (moment at time zone 'UTC' + length) at time zone 'UTC'
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
    null::timestamptz as ended_at, claimed_by as holder, null::jsonb as detail,
    coalesce(zone, 'UTC') as zone, coalesce(missed, 'fire_once') as missed
from shardclock.timers
union all
select
    timer_key, intent, tenant_id, name, timer_type, process_instance_key, element_instance_key,
    target_element_id, due_date, created_at, schedule, occurrence, target, payload,
    recorded_at, holder, detail, null, null
from shardclock.command_log
where intent in ('TRIGGERED', 'CANCELED') or (intent = 'SKIPPED' and detail ->> 'policy' = 'skip');

-- Three long functions, changed in a line or two each.
do $do$
declare
    change record;
    definition text;
begin
    for change in
        select * from (
            values
                ('shardclock.find_timers', 't.zone, t.missed', 'coalesce(t.zone, ''UTC''), coalesce(t.missed, ''fire_once'')'),
                -- Who plans a schedule needs both.
                ('shardclock.change_rules', 'coalesce(change_rules.zone, t.zone)', 'coalesce(change_rules.zone, t.zone, ''UTC'')'),
                ('shardclock.change_rules', 'change_rules.missed, t.missed', 'change_rules.missed, t.missed, ''fire_once'''),
                (
                    'shardclock.schedule_timer', 'target, zone, missed, target_element_id, name, schedule, payload' || e'\n    )\n    --',
                    'target, case when schedule is null then nullif(zone, ''UTC'') else zone end,'
                    || ' case when schedule is not null then missed end,'
                    || ' target_element_id, name, schedule, payload' || e'\n    )\n    --'
                )
        ) as c (function, was, becomes)
    loop
        definition := pg_get_functiondef(change.function::regproc);
        if strpos(definition, change.was) = 0 then
            raise exception '% is not as it was made: it has no "%"', change.function, change.was;
        end if;
        execute replace(definition, change.was, change.becomes);
    end loop;
end
$do$;
