-- Returns whether a job has no next start: neither a timer nor a delivery.
--
-- in:    job text
-- out:   boolean
-- locks: nothing
-- index: timers_by_name_prefix, deliveries_by_lane
create or replace function shardclock.has_no_start(job text)
returns boolean
language sql
volatile -- a new snapshot: the caller may have waited for the lock of the job's row
set enable_seqscan = off
begin atomic
    -- Read both tables in one select, because a firing may move the start from timers to deliveries between two
    -- selects.
    select not exists (
            select from shardclock.timers t
            where t.tenant_id = 'default' and t.name = 'job:' || has_no_start.job and t.target = t.name
        )
        and not exists (
            select from shardclock.deliveries d
            where d.target = 'job:' || has_no_start.job and d.tenant_id = 'default'
        );
end;

comment on function shardclock.has_no_start is 'Internal: Returns whether a job has neither a timer nor a delivery.';
