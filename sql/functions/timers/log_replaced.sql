-- Writes the log record of a replaced timer; the new timer gets the pause, and a requested run, of the replaced timer.
--
-- A new rule must not undo an operator's request. If the replaced timer was paused, the new timer is paused, too. If an
-- operator has requested an additional run that has not fired yet, the new timer gets this run at the same date.
--
-- in:    replaced shardclock.timers, replaced_by bigint
-- out:   nothing
-- locks: the new timer, if this function pauses it or gives it the run
-- index: timers_pkey
create or replace function shardclock.log_replaced(replaced shardclock.timers, replaced_by bigint)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    run_date constant timestamptz := coalesce(replaced.paused_due_date, replaced.due_date);
begin
    perform shardclock.log_of(
        replaced, 'CANCELED', run_date,
        jsonb_build_object('reason', format('replaced by timer %s', replaced_by), 'replaced_by', replaced_by)
    );
    if replaced.kept_due_date is not null
        and exists (select from shardclock.timers t where t.timer_key = replaced_by and t.schedule is not null)
    then
        perform shardclock.run_timers(array[replaced_by]);
        -- Copy the date too, because a client may have moved the run.
        if found and run_date > clock_timestamp() then
            perform shardclock.move_timers(array[replaced_by], run_date, null, null);
        end if;
    end if;
    if replaced.paused_due_date is not null then
        perform shardclock.pause_rows(
            array[replaced_by], format('timer %s was, which it replaces', replaced.timer_key), false,
            replaced.resume_at, replaced.resume_missed
        );
    end if;
end
$$;
