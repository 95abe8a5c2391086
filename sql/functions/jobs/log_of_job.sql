-- Writes the log record of a client's change of a job.
--
-- If the job has neither a timer nor a run, the record has the timer_key 0.
--
-- in:    name text, intent text, timer_key bigint, detail jsonb
-- out:   nothing
-- locks: the new record
-- index: none
create or replace function shardclock.log_of_job(name text, intent text, timer_key bigint, detail jsonb)
returns void
language sql
begin atomic
    insert into shardclock.command_log (
        timer_key, due_date, created_at, occurrence, intent, tenant_id, timer_type, target, name, detail
    )
    values (
        coalesce(log_of_job.timer_key, 0), now(), now(), 1, log_of_job.intent, 'default', 'USER',
        'job:' || log_of_job.name, 'job:' || log_of_job.name,
        jsonb_strip_nulls(
            log_of_job.detail || jsonb_build_object(
                'by', current_user, 'key_prefix', nullif(left(current_setting('shardclock.key_prefix', true), 60), '')
            )
        )
    );
end;

comment on function shardclock.log_of_job is 'Internal: Records a change of a job by a client.';
