-- Notifies workers of new deliveries if any handler, job or endpoint exists. The notification says whether a start of a
-- job is among the deliveries. Notifies engines if a signal is due.
--
-- in:    nothing
-- out:   sent boolean for each channel; no row if there are no handlers, jobs and endpoints, and no signal is due
-- locks: the queue of notifications, for the commit
-- index: deliveries_of_jobs, from the first due row to the first unclaimed row; deliveries_of_processes and
--        deliveries_by_lane, one probe each
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
