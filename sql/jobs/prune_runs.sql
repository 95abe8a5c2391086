-- Forgets the oldest ended runs of each job, and all of jobs that were removed; the log keeps their records for as long as it keeps any.
--
-- in:    :holder bigint, :keep bigint (how many of each job stay), :limit bigint (how many it forgets at most)
-- out:   forgotten bigint
-- locks: the rows that it forgets
-- index: job_runs_by_job, all of it; job_runs_pkey, jobs_pkey
with old as materialized (
    select r.timer_key, r.claims
    from shardclock.holders h
    cross join lateral (
        select
            r.timer_key, r.claims, r.outcome, r.job,
            row_number() over (partition by r.job order by r.started_at desc) as number
        from shardclock.job_runs r
    ) r
    where h.holder = :holder::bigint and h.ended_at is null and h.part = 0
        and (
            (r.number > :keep::bigint and r.outcome is not null)
            -- Also a run that was going when its job was removed: nobody ends it.
            or not exists (select from shardclock.jobs j where j.name = r.job)
        )
    limit :limit::bigint
),
forgotten as (
    delete from shardclock.job_runs r
    where (r.timer_key, r.claims) in (select old.timer_key, old.claims from old)
    returning r.timer_key
)
select count(*) as forgotten from forgotten
