-- Deletes dead letters for an operator, and records each deletion in the log.
--
-- A dead letter may be the start of a process instance. A discarded start never begins the instance, so the function
-- also deletes the instance's business key.
--
-- in:    timer_keys bigint[], reason text
-- out:   setof bigint
-- locks: the dead letters
-- index: dead_letters_pkey, instances_pkey
create or replace function shardclock.discard_dead_letters(
    timer_keys bigint[],
    reason text default null
)
returns setof bigint
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
begin
    perform shardclock.checked_text('reason', reason);
    return query
    with gone as (
        delete from shardclock.dead_letters d
        where d.timer_key = any (discard_dead_letters.timer_keys)
            and not exists (
                select
                from shardclock.instances i
                where i.instance_key = d.process_instance_key
                    and i.ended_at is null
                    and (d.target = 'process:instance') is true
            )
        returning d.*
    ),
    keys_gone as (
        delete from shardclock.business_keys b
        where b.instance_key = any (
            array(
                select g.timer_key
                from gone g
                where g.process_instance_key is null and (g.target = 'process:instance') is true
            )
        )
    )
    insert into shardclock.command_log (
        timer_key, process_instance_key, element_instance_key, due_date, created_at, occurrence, intent, tenant_id,
        timer_type, target, target_element_id, name, schedule, detail
    )
    select
        g.timer_key, g.process_instance_key, g.element_instance_key, g.due_date, g.created_at, g.occurrence,
        'DISCARDED', g.tenant_id, g.timer_type, g.target, g.target_element_id, g.name, g.schedule,
        jsonb_strip_nulls(
            jsonb_build_object(
                'by', session_user, 'reason', discard_dead_letters.reason,
                'key_prefix', nullif(left(current_setting('shardclock.key_prefix', true), 60), '')
            )
        )
    from gone g
    returning command_log.timer_key;
end
$$;

comment on function shardclock.discard_dead_letters is $$Discards dead letters permanently; the log records name the caller. A signal to a running instance stays a dead letter: redrive the signal, or cancel the instance.

timer_keys: the timers of the dead letters
reason: the reason, for the records
returns: the keys of the discarded dead letters; a key is missing if it is no dead letter, or if an instance waits for it
errors: 22023 for a reason of more than 1,000 characters; 42501 without a right on shardclock.dead_letters
example: select shardclock.discard_dead_letters(array[42], reason => 'refunded by hand');
$$;
