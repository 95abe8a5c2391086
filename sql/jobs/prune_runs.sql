-- Deletes the oldest ended runs and skipped starts of each job, and all rows of removed jobs. The log still has the
-- records of deleted runs.
--
-- in:    :holder bigint
--        :keep bigint: the number of runs, and of skipped starts, that each job keeps
--        :limit bigint: the limit of rows to delete
-- out:   forgotten bigint
-- locks: the rows that it deletes
-- index: job_runs_by_job, one probe for each job, its kept rows, and the deleted rows; jobs_pkey
with recursive me as materialized (
    select h.holder from shardclock.holders h where h.holder = :holder::bigint and h.ended_at is null and h.part = 0
),
names as (
    (select r.job from me cross join shardclock.job_runs r order by r.job limit 1)
    union all
    select n.job
    from names
    cross join lateral (
        select r.job from shardclock.job_runs r where r.job > names.job order by r.job limit 1
    ) n
),
bounds as materialized (
    select
        names.job,
        s.is_skipped,
        coalesce(b.started_at, case when j.name is null then timestamptz 'infinity' end) as started_at,
        j.name is null as is_removed
    from names
    cross join (values (true), (false)) s (is_skipped)
    left join lateral (select j.name from shardclock.jobs j where j.name = names.job limit 1) j on true
    left join lateral (
        -- Finds the newest run to delete.
        select r.started_at
        from shardclock.job_runs r
        where r.job = names.job and (r.outcome is not distinct from 'SKIPPED') = s.is_skipped and j.name is not null
        order by r.started_at desc
        offset :keep::bigint
        limit 1
    ) b on true
),
old as materialized (
    select o.timer_key, o.claims
    from bounds b
    cross join lateral (
        select r.timer_key, r.claims
        from shardclock.job_runs r
        where r.job = b.job
            and r.started_at <= b.started_at
            and (r.outcome is not distinct from 'SKIPPED') = b.is_skipped
            -- Also delete unended runs of removed jobs, because no worker will end these runs.
            and (r.outcome is not null or b.is_removed)
        limit :limit::bigint
    ) o
    where b.started_at is not null
    limit :limit
),
forgotten as (
    delete from shardclock.job_runs r
    where (r.timer_key, r.claims) in (select old.timer_key, old.claims from old)
    returning r.timer_key
)
select count(*) as forgotten from forgotten
