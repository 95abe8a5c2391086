-- Returns whether two timers are equal, so that a client's repeated call has no second effect.
--
-- The function compares rules as the texts that the clients wrote. It ignores the next due date of a schedule, because
-- the date follows from the rule. It ignores the zone of a plain timer, because its due date is a moment.
--
-- in:    wanted shardclock.timers, other shardclock.timers
-- out:   boolean
-- locks: nothing
-- index: none
create or replace function shardclock.is_same_timer(wanted shardclock.timers, other shardclock.timers)
returns boolean
language sql
immutable
begin atomic
    select (
        (wanted).schedule, (wanted).payload, (wanted).target, (wanted).timer_type,
        (wanted).target_element_id, (wanted).process_instance_key, (wanted).element_instance_key
    ) is not distinct from (
        (other).schedule, (other).payload, (other).target, (other).timer_type,
        (other).target_element_id, (other).process_instance_key, (other).element_instance_key
    )
    and case
        when (wanted).schedule is null then (wanted).due_date = coalesce((other).paused_due_date, (other).due_date)
        else coalesce((wanted).zone, 'UTC') = coalesce((other).zone, 'UTC')
            and coalesce((wanted).missed, 'fire_once') = coalesce((other).missed, 'fire_once')
    end;
end;
