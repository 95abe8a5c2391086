-- Signals to instances are deliveries, too, and engines take them: while nothing else is on its way, and no target is
-- there, no workers are wanted.
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
        -- A delivery whose target was removed becomes a dead letter, and only a worker does that. Two ranges, because an
        -- index finds no inequality: signals may be many.
        or exists (select from shardclock.deliveries d where d.target < 'process:instance')
        or exists (select from shardclock.deliveries d where d.target > 'process:instance');
end;

comment on function shardclock.has_targets is
    'Internal: Says whether a timer can have a target but the log, or a delivery is on its way to one: else no workers are wanted.';
