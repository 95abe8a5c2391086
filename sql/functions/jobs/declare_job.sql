-- Stores an app's declaration of one job, and returns the changes.
--
-- A column changes only if the app's declaration of the column has changed. So a new deployment keeps the values that
-- an operator has set.
--
-- in:    spec jsonb
-- out:   text[]: added; or the changed columns, after `back` if the job was withdrawn; empty: no change
-- locks: the job, and the timer of its next start
-- index: jobs_pkey, timers_by_name_prefix
create or replace function shardclock.declare_job(spec jsonb)
returns text[]
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    before shardclock.jobs;
    job shardclock.jobs;
    changed text[];
begin
    select j.* into before from shardclock.jobs j where j.name = spec ->> 'name' for update;
    if not found then
        job := jsonb_populate_record(null::shardclock.jobs, spec);
        insert into shardclock.jobs (
            name, function, every_s, schedule, zone, missed, overlap, priority, config, policy, declared
        )
        values (
            job.name, job.function, job.every_s, job.schedule, job.zone, job.missed, job.overlap, job.priority,
            job.config, job.policy, spec
        )
        returning jobs.* into job;
        perform shardclock.resume_job(job);
        return '{added}';
    end if;
    changed := array(
        select d.key from jsonb_each(spec) d where d.value is distinct from before.declared -> d.key order by d.key
    );
    if changed = '{}' and before.withdrawn_at is null then
        return changed;
    end if;
    job := jsonb_populate_record(
        before, (select coalesce(jsonb_object_agg(c.key, spec -> c.key), '{}') from unnest(changed) as c (key))
    );
    update shardclock.jobs j
    set function = job.function, every_s = job.every_s, schedule = job.schedule, zone = job.zone, missed = job.missed,
        overlap = job.overlap, priority = job.priority, config = job.config, policy = job.policy, declared = spec,
        withdrawn_at = null, declared_at = clock_timestamp(), changed_at = clock_timestamp(),
        state = case when j.state = 'DISABLED' and j.disabled_at is null then 'SCHEDULED' else j.state end
    where j.name = before.name
    returning j.* into job;
    if job.is_enabled and (before.withdrawn_at is not null or changed && '{every_s,schedule,zone,missed}') then
        perform shardclock.drop_job_timer(job.name, 'the app declares another rule');
        perform shardclock.resume_job(job);
    end if;
    return case when before.withdrawn_at is not null then '{back}' else '{}'::text[] end || changed;
end
$$;

comment on function shardclock.declare_job is
    'Internal: Stores a job''s declaration by its app, and returns the changes.';
