-- Writes the log record of a change of a timer.
--
-- in:    timers shardclock.timers, intent text, due_date timestamptz, detail jsonb
-- out:   nothing
-- locks: the new record
-- index: none
create or replace function shardclock.log_of(timers shardclock.timers, intent text, due_date timestamptz, detail jsonb)
returns void
language sql
begin atomic
    select case log_of.intent
        when 'CANCELED' then nextval('shardclock.canceled_seq')
        when 'RESCHEDULED' then nextval('shardclock.rescheduled_seq')
        when 'PAUSED' then nextval('shardclock.paused_seq')
        when 'RESUMED' then nextval('shardclock.resumed_seq')
    end;
    insert into shardclock.command_log (
        timer_key, process_instance_key, element_instance_key, due_date, created_at, occurrence,
        intent, tenant_id, timer_type, target, target_element_id, name, schedule, payload, detail
    )
    values (
        (timers).timer_key, (timers).process_instance_key, (timers).element_instance_key, log_of.due_date,
        (timers).created_at, (timers).occurrence, log_of.intent, (timers).tenant_id, (timers).timer_type,
        (timers).target, (timers).target_element_id, (timers).name, (timers).schedule, (timers).payload,
        jsonb_strip_nulls(
            log_of.detail || jsonb_build_object(
                'by', current_user, 'key_prefix', nullif(left(current_setting('shardclock.key_prefix', true), 60), '')
            )
        )
    );
end;
