-- Returns how the last timer with a key or a name ended: TRIGGERED, CANCELED or SKIPPED; UNKNOWN: the log has no
-- record.
--
-- in:    timer_key bigint, name text, tenant_id text
-- out:   text
-- locks: nothing
-- index: command_log_by_timer_key or command_log_by_name
create or replace function shardclock.ended_as(timer_key bigint, name text, tenant_id text)
returns text
language sql
volatile -- a new snapshot: the caller has just waited for another transaction's commit.
begin atomic
    select coalesce(
        (
            select l.intent from shardclock.command_log l
            where l.timer_key = ended_as.timer_key and l.intent in ('TRIGGERED', 'CANCELED', 'SKIPPED')
            order by l.intent = 'SKIPPED'
            limit 1
        ),
        (
            -- The last record has the highest position. (The time is not used, because the clock may have been set
            -- back.) The index by name has times but no positions. So the query reads the records of the last day by
            -- their times: it assumes that no clock is set back by more than a day.
            select l.intent from shardclock.command_log l
            where l.tenant_id = ended_as.tenant_id and l.name = ended_as.name
                and l.recorded_at >= (
                    select max(n.recorded_at) - interval '1 day' from shardclock.command_log n
                    where n.tenant_id = ended_as.tenant_id and n.name = ended_as.name
                )
                and (l.intent in ('TRIGGERED', 'CANCELED') or (l.intent = 'SKIPPED' and l.detail ->> 'policy' = 'skip'))
            -- `+ 0` prevents a scan of the index on position.
            order by l.position + 0 desc
            limit 1
        ),
        'UNKNOWN'
    );
end;
