-- Reads the last firings and skipped occurrences of some schedules.
--
-- in:    :tenant_id text
--        :names text[]: the schedules
--        :firings_max integer: the limit of rows for each schedule
--        :records_max integer: the limit of records to read for each schedule, newest first
-- out:   name text, recorded_at timestamptz
--        intent text: TRIGGERED or SKIPPED
--        due_date timestamptz, occurrence bigint
--        late_s double precision or null: for TRIGGERED
--        skipped bigint: for SKIPPED, else 0
--        newest first for each name
-- locks: nothing
-- index: command_log_by_name, :records_max records of each name
select
    n.name, r.recorded_at, r.intent, r.due_date, r.occurrence,
    case
        when r.intent = 'TRIGGERED' then date_part('epoch', r.recorded_at - shardclock.late_since(
            r.due_date, r.created_at, (r.detail ->> 'changed_at')::timestamptz, r.occurrence
        ))
    end as late_s,
    case when r.intent = 'SKIPPED' then (r.detail ->> 'count')::bigint else 0 end as skipped
from unnest(:names::text[]) with ordinality as n (name, place)
cross join lateral (
    select r.*
    from (
        select
            l.position, l.recorded_at, l.intent, l.due_date, l.created_at, l.occurrence, l.schedule, l.detail
        from shardclock.command_log l
        where l.tenant_id = :tenant_id and l.name = n.name
        order by l.recorded_at desc
        limit :records_max::integer
    ) r
    where r.intent in ('TRIGGERED', 'SKIPPED') and r.schedule is not null
    order by r.position desc
    limit :firings_max::integer
) r
order by n.place, r.position desc
