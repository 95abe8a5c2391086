-- Stores all job declarations of an app, withdraws all other declared jobs, and returns the changes.
--
-- Only one app at a time declares its jobs. If a client's transaction stays open, the call fails after 500 ms, because
-- other clients would wait behind the call. The caller tries again later.
--
-- in:    specs jsonb[], names text[]
-- out:   job text, changes text[]; changes is {added}, {withdrawn}, or the changed columns, after `back` if the job was
--          withdrawn before; an unchanged job has no row
-- locks: the jobs, and the names of jobs until the transaction ends
-- index: jobs_pkey
create or replace function shardclock.declare_jobs(specs jsonb[], names text[])
returns table (job text, changes text[])
language plpgsql
set lock_timeout = '500ms'
set search_path = pg_catalog, pg_temp
as $$
begin
    perform shardclock.lock_job_names(shared => false);
    return query
        select s.spec ->> 'name', d.changes
        from unnest(declare_jobs.specs) as s (spec)
        cross join lateral shardclock.declare_job(s.spec) as d (changes)
        where d.changes <> '{}';
    return query
        select w.name, '{withdrawn}'::text[]
        from shardclock.withdraw_jobs(declare_jobs.names) as w (name);
end
$$;

comment on function shardclock.declare_jobs is
    'Internal: Declares these jobs of the app, withdraws all other declared jobs, and returns the changes.';
