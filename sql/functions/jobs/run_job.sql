-- A start is due when it is asked for, not when its transaction began: else a start of a long transaction would come
-- before others that were asked for earlier.
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
    why_not text := shardclock.unknown_job(run_job.name, 'default');
    key bigint;
begin
    if run_job.name is null or why_not is not null then
        raise exception '%', coalesce(why_not, 'job null is unknown: name one')
            using errcode = 'invalid_parameter_value';
    end if;
    if octet_length(run_job.config::text) > 65536 then
        raise exception 'config has % bytes: the limit is 65536 (64 KiB)', octet_length(run_job.config::text)
            using errcode = 'invalid_parameter_value';
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

comment on function shardclock.run_job is $$Starts a job now, in the caller's transaction: it has one more start, and
its next start stays when it is. If a run is going, the job's overlap says what happens.

name: the job's name
config: what this run gets as its configuration; null: the job's own
returns: the timer_key of the start; shardclock.job_runs has its runs
errors: 22023 for a job that is unknown, disabled or withdrawn, or a config of more than 64 KiB
example: select shardclock.run_job('refresh', config => '{"region": "eu"}');
$$;
