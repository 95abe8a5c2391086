-- Tells workers that there are new deliveries, if an app has declared handlers or jobs, or a tenant has endpoints; and
-- whether a start of a job is among them.
--
-- in:    nothing
-- out:   sent boolean, or no row: there are no handlers, no jobs and no endpoints
-- locks: the queue of notifications, for the commit
-- index: deliveries_of_jobs, from the first that is due to the first that nobody has in hand
select
    pg_notify(
        'shardclock_deliveries',
        case
            when exists (
                select from shardclock.deliveries d
                where d.target like 'job:%' and d.next_attempt_at <= now() and d.claimed_by is null
            )
                then 'jobs'
            else ''
        end
    ) is not null as sent
where shardclock.has_targets()
