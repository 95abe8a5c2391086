-- Declarations of apps wait for each other. A declaration doesn't wait long for a client's open transaction: behind it
-- other clients would wait, too, and the client itself, if it has locked a job that is declared. It is tried again
-- later.
--
-- in:    said jsonb[], names text[]
-- out:   job text, changes text[]; {added}; {back} and the changed columns; the changed columns; or {withdrawn}. An
--        unchanged job has no row
-- locks: the jobs, and the names of jobs until the transaction ends
-- index: jobs_pkey
create or replace function shardclock.declare_jobs(said jsonb[], names text[])
returns table (job text, changes text[])
language plpgsql
set lock_timeout = '500ms'
set search_path = pg_catalog, pg_temp
as $$
begin
    perform shardclock.lock_job_names(shared => false);
    return query
        select s.said ->> 'name', d.changes
        from unnest(declare_jobs.said) as s (said)
        cross join lateral shardclock.declare_job(s.said) as d (changes)
        where d.changes <> '{}';
    return query
        select w.name, '{withdrawn}'::text[]
        from shardclock.withdraw_jobs(declare_jobs.names) as w (name);
end
$$;

comment on function shardclock.declare_jobs is
    'Internal: Makes these the jobs of the app, withdraws all others that an app declared, and says what that changed.';
