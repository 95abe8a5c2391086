-- Writes the timer of a job's next start, unless the job has this timer already.
--
-- in:    planned shardclock.jobs, at timestamptz
-- out:   bigint: the timer's key; null: the job has a timer already
-- locks: the new timer
-- index: timers_by_name_prefix
create or replace function shardclock.plan_job(planned shardclock.jobs, at timestamptz)
returns bigint
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
declare
    key bigint;
begin
    if num_nonnulls(planned.every_s, planned.schedule) = 0 then
        return null;
    end if;
    for try in 1 .. 2 loop
        insert into shardclock.timers (
            due_date, anchor, anchor_occurrence, repetitions, target, zone, missed, name, schedule
        )
        select
            -- A new schedule is due immediately, so that a shard claims the schedule and computes its first due date,
            -- without firing.
            case when planned.schedule is null then plan_job.at else now() end,
            case when planned.schedule is not null then now() end,
            case when planned.schedule is null then 0 end,
            case when planned.schedule is null then 1 else -1 end,
            'job:' || planned.name,
            case when planned.schedule is not null then planned.zone end,
            case when planned.schedule is not null then planned.missed end,
            'job:' || planned.name,
            planned.schedule
        on conflict do nothing
        returning timers.timer_key into key;
        exit when key is not null or exists (
            select from shardclock.timers t where t.tenant_id = 'default' and t.name = 'job:' || planned.name
        );
        -- No timer has the name, so another timer has the key: an operator or a restore has set the sequence of keys
        -- back.
        perform shardclock.advance_keys();
    end loop;
    return key;
end
$$;

comment on function shardclock.plan_job is
    'Internal: Writes the timer of a job''s next start, unless the job has this timer already.';
