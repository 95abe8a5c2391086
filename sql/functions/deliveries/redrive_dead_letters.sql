-- Turns dead letters into deliveries again, for an operator. A rate limit can spread the first attempts over time.
--
-- in:    timer_keys bigint[], per_s integer
-- out:   setof bigint
-- locks: the dead letters
-- index: dead_letters_pkey
create or replace function shardclock.redrive_dead_letters(
    timer_keys bigint[],
    per_s integer default null
)
returns setof bigint
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
declare
    why_not text;
begin
    if per_s < 1 then
        raise exception 'per_s % is refused: redrive at least 1 a second, or leave it out', per_s
            using errcode = 'invalid_parameter_value', constraint = 'invalid_per_s';
    end if;
    return query
    with lane as materialized (
        select d.target, d.tenant_id
        from shardclock.dead_letters d
        where d.timer_key = any (redrive_dead_letters.timer_keys)
        group by d.target, d.tenant_id
    ),
    closed as materialized (
        select l.target, l.tenant_id from lane l where shardclock.closed_target(l.target, l.tenant_id) is not null
    ),
    risen as (
        delete from shardclock.dead_letters d
        where d.timer_key = any (redrive_dead_letters.timer_keys)
            and not exists (select from closed c where c.target = d.target and c.tenant_id = d.tenant_id)
        returning d.*
    ),
    numbered as materialized (
        select
            r.*,
            now() + coalesce((row_number() over (order by r.died_at, r.timer_key) - 1)::double precision / per_s, 0)
                * interval '1 second' as begins_at
        from risen r
    ),
    recorded as (
        insert into shardclock.command_log (
            timer_key, process_instance_key, element_instance_key, due_date, created_at, occurrence, intent, tenant_id,
            timer_type, target, target_element_id, name, schedule, detail
        )
        select
            n.timer_key, n.process_instance_key, n.element_instance_key, n.due_date, n.created_at, n.occurrence,
            'REDRIVEN', n.tenant_id, n.timer_type, n.target, n.target_element_id, n.name, n.schedule,
            jsonb_strip_nulls(
                jsonb_build_object(
                    'by', session_user,
                    'key_prefix', nullif(left(current_setting('shardclock.key_prefix', true), 60), '')
                )
            )
        from numbered n
    )
    insert into shardclock.deliveries (
        timer_key, process_instance_key, element_instance_key, next_attempt_at, due_date, created_at, fired_at,
        redriven_at, occurrence, claims, given_back, slot, tenant_id, timer_type, target, target_element_id, name,
        schedule, payload, failures
    )
    select
        n.timer_key, n.process_instance_key, n.element_instance_key, n.begins_at, n.due_date, n.created_at, n.fired_at,
        n.begins_at, n.occurrence,
        -- The number of claims is not reset, so that a late outcome of an old claim has no effect. `given_back` gets
        -- the same number, because each claim that was not given back counts as a crash of its worker during the call.
        n.claims, n.claims, n.slot, n.tenant_id, n.timer_type, n.target,
        n.target_element_id, n.name, n.schedule, n.payload, n.failures
    from numbered n
    returning deliveries.timer_key;
    if not found then
        select shardclock.closed_target(d.target, d.tenant_id) into why_not
        from shardclock.dead_letters d
        where d.timer_key = any (redrive_dead_letters.timer_keys)
        limit 1;
        if why_not is not null then
            raise exception '% not redriven: %', 'the dead letters are', why_not
                using errcode = 'object_not_in_prerequisite_state', constraint = 'not_redriven';
        end if;
    end if;
end
$$;

comment on function shardclock.redrive_dead_letters is $$Delivers dead letters again, beginning with their first attempt. A dead letter of a disabled or removed endpoint stays a dead letter.

timer_keys: the timers that fired
per_s: the number of dead letters that become due each second; null: all become due immediately
returns: the keys of the redriven dead letters
errors: 22023 for a per_s below 1; 55000 if no dead letter could be redriven, with the reason; 42501 without a right on shardclock.deliveries
example: select shardclock.redrive_dead_letters(array(select timer_key from shardclock.dead_letters where target = 'order.expired'), per_s => 50);
$$;
