-- A client checks a job's name and function while no declaration is under way. Without the lock there are two races. A
-- job stays withdrawn although its code has just come. A job that a client adds keeps a function that was just withdrawn.
--
-- in:    shared boolean
-- out:   nothing
-- locks: the names of jobs, until the transaction ends: shared by clients, alone for a declaration
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
    'Internal: Keeps what an app declares and what clients add from changing at once, until the transaction ends.';
