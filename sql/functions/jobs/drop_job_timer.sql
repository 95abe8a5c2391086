-- Cancels the timer of a job's next start, and returns the timer's key.
--
-- in:    job text, why text
-- out:   bigint: the timer's key; null: the job had no timer
-- locks: the timer
-- index: timers_by_name_prefix
create or replace function shardclock.drop_job_timer(job text, why text)
returns bigint
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
declare
    key bigint;
begin
    loop
        with gone as (
            delete from shardclock.timers t
            where t.tenant_id = 'default' and t.name = 'job:' || drop_job_timer.job and t.target = t.name
            returning t.*
        )
        insert into shardclock.command_log (
            timer_key, due_date, created_at, occurrence, intent, tenant_id, timer_type, target, name, schedule, payload,
            detail
        )
        select
            g.timer_key, coalesce(g.paused_due_date, g.due_date), g.created_at, g.occurrence, 'CANCELED', g.tenant_id,
            g.timer_type, g.target, g.name, g.schedule, g.payload,
            jsonb_build_object('reason', drop_job_timer.why, 'by', current_user)
        from gone g
        returning command_log.timer_key into key;
        -- The timer may have fired while this call waited for its row. Then another timer, for the next occurrence, has
        -- the name: search again.
        exit when key is not null or not exists (
            select from shardclock.timers t
            where t.tenant_id = 'default' and t.name = 'job:' || drop_job_timer.job and t.target = t.name
        );
    end loop;
    return key;
end
$$;

comment on function shardclock.drop_job_timer is 'Internal: Cancels the timer of a job''s next start.';
