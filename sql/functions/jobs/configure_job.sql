-- Sets the configuration for the next runs of a job.
--
-- in:    name text, config jsonb
-- out:   jsonb: the configuration before
-- locks: the job
-- index: jobs_pkey
create or replace function shardclock.configure_job(name text, config jsonb)
returns jsonb
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    before jsonb;
begin
    select j.config into before from shardclock.jobs j where j.name = configure_job.name for update;
    if not found then
        raise exception '%', (shardclock.unknown_job(configure_job.name, 'default'))[2]
            using errcode = 'no_data_found', constraint = 'unknown_job';
    end if;
    if octet_length(configure_job.config::text) > 65536 then
        raise exception 'config has % bytes: the limit is 65536 (64 KiB)', octet_length(configure_job.config::text)
            using errcode = 'invalid_parameter_value', constraint = 'invalid_config';
    end if;
    update shardclock.jobs j set config = configure_job.config, changed_at = clock_timestamp()
    where j.name = configure_job.name;
    return before;
end
$$;

comment on function shardclock.configure_job is $$Sets the configuration for the next runs of a job. The configuration is valid until the app declares another configuration.

name: the job's name
config: any JSON of at most 64 KiB; at the start of a run, it is checked against the type that the job's function takes
returns: the former configuration
errors: P0002 for an unknown job; 22023 for a config of more than 64 KiB
example: select shardclock.configure_job('refresh', '{"region": "eu"}');
$$;
