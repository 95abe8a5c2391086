-- Returns the row of a job that matches a description; does not write the row.
--
-- `spec` is an object with column names as keys, and the key `disabled`. A missing or null key gives the column its
-- default. Without `config`, the configuration does not change.
--
-- in:    spec jsonb
-- out:   shardclock.jobs
-- locks: nothing
-- index: jobs_pkey
create or replace function shardclock.described_job(spec jsonb)
returns shardclock.jobs
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    job shardclock.jobs;
begin
    select j.* into job from shardclock.jobs j where j.name = spec ->> 'name';
    job := jsonb_populate_record(
        job,
        '{"every_s": null, "schedule": null, "zone": "UTC", "missed": "fire_once", "overlap": "skip", "priority": 2,
            "policy": {}}'::jsonb
            || (
                select coalesce(jsonb_object_agg(s.key, s.value), '{}')
                from jsonb_each(spec - 'disabled') s
                where s.value <> 'null'
            )
    );
    if job.schedule is not null then
        job.zone := shardclock.agreed_zone(job.schedule, job.zone);
    end if;
    return job;
end
$$;

comment on function shardclock.described_job is 'Internal: Returns the row of a job that matches a description.';
