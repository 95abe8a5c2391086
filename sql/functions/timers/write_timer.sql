-- Writes the row of a new timer; if a pending timer has the name, on_conflict decides.
--
-- A timer with the same key may belong to another tenant. The caller can't read this timer, but is_key_used finds it.
--
-- in:    wanted shardclock.timers, on_conflict text, redraws boolean
-- out:   shardclock.ensured_timer
-- locks: the new row; a timer that it replaces
-- index: timers_pkey, timers_by_name_prefix; command_log_by_timer_key for a key that the client chose
create or replace function shardclock.write_timer(
    wanted shardclock.timers,
    on_conflict text,
    redraws boolean
)
returns shardclock.ensured_timer
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    written boolean;
    bearer bigint;
    other shardclock.timers;
    replaced shardclock.timers;
begin
    if on_conflict is distinct from 'refuse' then
        perform shardclock.check_on_conflict(on_conflict, wanted.name);
    end if;
    loop
        insert into shardclock.timers (
            timer_key, created_at, process_instance_key, element_instance_key, due_date, anchor, anchor_occurrence,
            repetitions, tenant_id, timer_type, target, zone, missed, target_element_id, name, schedule, payload
        )
        values (
            wanted.timer_key, wanted.created_at, wanted.process_instance_key, wanted.element_instance_key,
            wanted.due_date, wanted.anchor, wanted.anchor_occurrence, wanted.repetitions, wanted.tenant_id,
            wanted.timer_type, wanted.target, wanted.zone, wanted.missed, wanted.target_element_id,
            -- A client needs a name to cancel a schedule, because the schedule's key changes at each firing.
            coalesce(wanted.name, case when wanted.schedule is not null then 'schedule-' || wanted.timer_key end),
            wanted.schedule, wanted.payload
        )
        -- There is no exception block, because it would make a subtransaction for each timer of a bulk load.
        on conflict do nothing;
        written := found;
        -- Check the log for an ended timer with this key. A caller that chose the key itself (`redraws` is false) has
        -- already checked the rows of its own tenants.
        exit when written
            and not exists (select from shardclock.logged_keys l where l.timer_key = wanted.timer_key);
        bearer := shardclock.pending_key(null, wanted.name, wanted.tenant_id);
        if written
            or wanted.name is null
            or bearer = wanted.timer_key
            or (bearer is null and shardclock.is_key_used(wanted.timer_key))
        then
            if not redraws and replaced.timer_key is not null then
                raise exception 'key % was taken just now: send the timer again', wanted.timer_key
                    using errcode = 'serialization_failure';
            end if;
            if written then
                delete from shardclock.timers t where t.timer_key = wanted.timer_key;
            end if;
            if not redraws then
                return null;
            end if;
            perform shardclock.advance_keys();
            wanted.timer_key := nextval('shardclock.timer_key_seq');
            continue;
        end if;
        if on_conflict = 'refuse' and bearer is not null then
            raise exception 'name % is taken by a pending timer of tenant %: choose another name, or set on_conflict to ignore or '
                'replace',
                quote_literal(left(wanted.name, 60)), quote_literal(left(wanted.tenant_id, 60))
                using errcode = 'unique_violation', constraint = 'name_taken';
        end if;
        select t.* into other from shardclock.timers t where t.timer_key = bearer;
        -- The timer with this name has ended since the call of pending_key. Now the name is free, or belongs to the
        -- next occurrence of the schedule.
        continue when not found;
        if on_conflict = 'ignore' or shardclock.is_same_timer(wanted, other) then
            return (other.timer_key, coalesce(other.paused_due_date, other.due_date), 'unchanged'::text);
        end if;
        if not redraws and shardclock.is_key_used(wanted.timer_key) then
            return null; -- before any row is changed
        end if;
        delete from shardclock.timers t where t.timer_key = bearer returning t.* into replaced;
        -- The replaced schedule may have fired after this transaction began. With an anchor before this firing, the new
        -- schedule would fire the same occurrence again.
        if wanted.anchor_occurrence is null and replaced.occurrence > 1 then
            wanted.anchor := greatest(wanted.anchor, replaced.created_at);
        end if;
    end loop;
    if replaced.timer_key is not null then
        perform shardclock.log_replaced(replaced, wanted.timer_key);
    end if;
    return (wanted.timer_key, wanted.due_date, case when replaced.timer_key is null then 'created' else 'replaced' end);
end
$$;
