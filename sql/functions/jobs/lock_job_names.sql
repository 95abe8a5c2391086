-- A client that judges a job's name and function doesn't do so beside a declaration that is under way. Without the
-- lock, a job stayed withdrawn although its code had just come, and a job that a client added for one that was just
-- withdrawn went on without code.
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
