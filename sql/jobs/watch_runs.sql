-- Reads the runs that a client has cancelled, and the runs that other workers have ended.
--
-- in:    one array for each field of the runs: :jobs text[], :timer_keys bigint[], :claims integer[]
-- out:   timer_key bigint, claims integer, why text (the reason of the cancellation; null: another worker has ended the
--          run)
-- locks: nothing
-- index: jobs_pkey, one probe for each run
select r.timer_key, r.claims, case when j.run_timer_key = r.timer_key and j.run_claims = r.claims then j.cancel_why end as why
from unnest(:jobs::text[], :timer_keys::bigint[], :claims::integer[]) as r (job, timer_key, claims)
left join lateral (
    select j.cancel_asked_at, j.cancel_why, j.run_timer_key, j.run_claims
    from shardclock.jobs j
    where j.name = r.job
    limit 1
) j on true
where (j.run_timer_key = r.timer_key and j.run_claims = r.claims and j.cancel_asked_at is null) is not true
