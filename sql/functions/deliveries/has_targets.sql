-- Returns whether a cluster needs workers: there is a handler, an endpoint, a job, or an open delivery that is not a
-- signal.
--
-- Signals need no worker, because engines process them.
--
-- in:    nothing
-- out:   boolean
-- locks: nothing
-- index: jobs_pkey; deliveries_by_lane, its two ends
create or replace function shardclock.has_targets()
returns boolean
language sql
stable
begin atomic
    select exists (select from shardclock.handlers h where h.withdrawn_at is null)
        or exists (select from shardclock.endpoints)
        or exists (select from shardclock.jobs j where j.withdrawn_at is null)
        -- A delivery to a removed target also needs a worker, which makes it a dead letter. There may be many signals,
        -- so the query reads only the index ranges before and after them.
        or exists (select from shardclock.deliveries d where d.target < 'process:instance')
        or exists (select from shardclock.deliveries d where d.target > 'process:instance');
end;

comment on function shardclock.has_targets is
    'Internal: Returns whether the cluster needs workers: there is a target other than the log, or an open delivery to another target than the log.';
