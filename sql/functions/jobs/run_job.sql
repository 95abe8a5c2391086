-- Starts a job once, in addition to its rule.
--
-- The start is due at the moment of the call, not when the transaction began. Otherwise a start from a long transaction
-- would overtake starts that other clients requested earlier.
--
-- in:    name text, config jsonb
-- out:   bigint
-- locks: the new timer
-- index: jobs_pkey
create or replace function shardclock.run_job(name text, config jsonb default null)
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    why_not text[] := shardclock.unknown_job(run_job.name, 'default');
    key bigint;
begin
    if why_not is not null then
        raise exception '%', why_not[2]
            using errcode = case why_not[1] when 'unknown_job' then 'P0002' else '55000' end, constraint = why_not[1];
    end if;
    if octet_length(run_job.config::text) > 65536 then
        raise exception 'config has % bytes: the limit is 65536 (64 KiB)', octet_length(run_job.config::text)
            using errcode = 'invalid_parameter_value', constraint = 'invalid_config';
    end if;
    loop
        insert into shardclock.timers (due_date, target, payload)
        values (clock_timestamp(), 'job:' || run_job.name, run_job.config)
        on conflict do nothing
        returning timers.timer_key into key;
        exit when key is not null;
        perform shardclock.advance_keys();
    end loop;
    return key;
end
$$;

comment on function shardclock.run_job is $$Starts a job now, in the caller's transaction: the job gets one additional start, and the time of its next start does not change. If the job is running, its `overlap` decides.

name: the job's name
config: the configuration of this run; null: the job's own configuration
returns: the timer_key of the start; shardclock.job_runs has the runs with this key
errors: P0002 for an unknown job; 55000 for a disabled or withdrawn job; 22023 for a config of more than 64 KiB
example: select shardclock.run_job('refresh', config => '{"region": "eu"}');
$$;
