-- Locks the names of jobs, so that no app declares jobs while a client checks a job's name and function.
--
-- Without the lock, a job could stay withdrawn although an app has declared its function, or a client could add a job
-- with a function that an app withdraws at the same time.
--
-- in:    shared boolean
-- out:   nothing
-- locks: the names of jobs, until the transaction ends: shared for clients, exclusive for a declaration
-- index: none
create or replace function shardclock.lock_job_names(shared boolean)
returns void
language sql
set search_path = pg_catalog, pg_temp
as $$
    select case
        when shared then pg_advisory_xact_lock_shared(hashtextextended('shardclock.jobs', 0))
        else pg_advisory_xact_lock(hashtextextended('shardclock.jobs', 0))
    end
$$;

comment on function shardclock.lock_job_names is
    'Internal: Keeps apps from declaring jobs while clients add jobs, until the transaction ends.';
