-- Finds a tenant's timers that a shard paused because it could not fire them, the last paused first.
--
-- in:    :tenant_id text
--        :with_jobs boolean: also timers of jobs and processes
--        :looked bigint: the limit of timers to read, the last changed first
--        :limit bigint
-- out:   timer_key bigint, name text or null, target text, schedule text or null, paused_at timestamptz, reason text
-- locks: nothing
-- index: timers_by_change, backwards, at most :looked rows; command_log_by_timer_key, one probe for each paused timer
with paused as materialized (
    select t.timer_key, t.name, t.target, t.schedule, t.changed_at
    from (
        select t.timer_key, t.name, t.target, t.schedule, t.changed_at, t.paused_due_date
        from shardclock.timers t
        where t.tenant_id = :tenant_id::text and t.changed_at is not null
        order by t.changed_at desc, t.timer_key desc
        limit :looked::bigint
    ) t
    where t.paused_due_date is not null
        and (:with_jobs::boolean or not shardclock.is_of_system(t.target))
)
select p.timer_key, p.name, p.target, p.schedule, p.changed_at as paused_at, r.reason
from paused p
cross join lateral (
    -- If a client has paused the timer after the shard did, the last PAUSED record is the client's, and lacks the
    -- shard's reason.
    select l.detail ->> 'refused' as reason
    from shardclock.command_log l
    where l.timer_key = p.timer_key and l.intent = 'PAUSED'
    order by l.recorded_at desc
    limit 1
) r
where r.reason is not null
order by p.changed_at desc, p.timer_key desc
limit :limit::bigint
