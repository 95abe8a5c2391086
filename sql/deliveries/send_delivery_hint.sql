-- Tells workers that there are new deliveries, if an app has declared handlers or jobs, or a tenant has endpoints; and
-- whether a start of a job is among them. Tells engines that there are signals, if one is due.
--
-- in:    nothing
-- out:   sent boolean for each channel, or no row: there are no handlers, jobs and endpoints, and no signal is due
-- locks: the queue of notifications, for the commit
-- index: deliveries_of_jobs, from the first that is due to the first that nobody has in hand; deliveries_of_processes and
--        deliveries_by_lane, a probe
select pg_notify(h.channel, h.says) is not null as sent
from (
    select
        'shardclock_deliveries' as channel,
        case
            when exists (
                select from shardclock.deliveries d
                where d.target like 'job:%' and d.next_attempt_at <= now() and d.claimed_by is null
            )
                then 'jobs'
            else ''
        end as says
    where shardclock.has_targets()
    union all
    select 'shardclock_signals', ''
    where exists (
        select from shardclock.deliveries d
        where d.target = 'process:instance' and d.next_attempt_at <= now()
    )
) h
