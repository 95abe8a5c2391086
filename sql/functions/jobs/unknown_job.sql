-- Returns the refusal if a tenant's timer can't have this job as its target; otherwise null.
--
-- in:    name text, tenant_id text
-- out:   text[]: the code, and the sentence
-- locks: nothing
-- index: jobs_pkey
create or replace function shardclock.unknown_job(name text, tenant_id text)
returns text[]
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    job shardclock.jobs;
begin
    if unknown_job.tenant_id <> 'default' then
        return array[
            'job_of_default',
            format('job %L belongs to the tenant ''default'', as all jobs do', left(unknown_job.name, 60))
        ];
    end if;
    select j.* into job from shardclock.jobs j where j.name = unknown_job.name;
    return case
        when job.name is null
            then array['unknown_job', format(
                'job %L is unknown: %s', left(unknown_job.name, 60),
                coalesce(
                    (
                        select 'the jobs are ' || string_agg(j.name, ', ' order by j.name)
                        from (select j.name from shardclock.jobs j order by j.name limit 20) j
                    ),
                    'there are none; an app declares them (shardclock up --app)'
                )
            )]
        when job.withdrawn_at is not null
            then array[
                'job_withdrawn',
                format(
                    'job %L was withdrawn at %s: start the cluster with the app that declares it',
                    job.name, job.withdrawn_at
                )
            ]
        when job.disabled_at is not null
            then array[
                'job_disabled',
                format(
                    'job %L was disabled at %s (%s): enable it (shardclock jobs enable)',
                    job.name, job.disabled_at, job.disabled_why
                )
            ]
    end;
end
$$;

comment on function shardclock.unknown_job is
    'Internal: Returns the refusal if a tenant''s timer can''t have a job as its target; null: the target is accepted.';
