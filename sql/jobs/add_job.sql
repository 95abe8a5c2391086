-- Adds a job that runs the function of a declared one.
--
-- in:    :name text, :of_job text, :every interval or null, :schedule text or null, :zone text, :missed text,
--        :overlap text or null, :priority integer or null, :config jsonb or null (nulls: as of_job)
-- out:   state text
-- locks: nothing that is there
-- index: jobs_pkey
select
    shardclock.add_job(
        :name::text, :of_job::text, :every::interval, :schedule::text, :zone::text, :missed::text, :overlap::text,
        :priority::integer, :config::jsonb
    ) as state
