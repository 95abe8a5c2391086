-- A start that no engine could take is a dead letter. Once that is discarded, no instance ever begins, so the business
-- key goes with it.
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
        jsonb_strip_nulls(jsonb_build_object('by', session_user, 'reason', discard_dead_letters.reason))
    from gone g
    returning command_log.timer_key;
end
$$;

comment on function shardclock.discard_dead_letters is $$Discards dead letters for good; their records say who did it.
A signal to an instance that still runs is left: redrive it, or cancel the instance.

timer_keys: the timers whose deliveries were given up
reason: why, for the records
returns: the keys of those that were discarded; a missing one was no dead letter, or an instance waits for it
errors: 42501 without a right on shardclock.dead_letters
example: select shardclock.discard_dead_letters(array[42], reason => 'refunded by hand');
$$;
