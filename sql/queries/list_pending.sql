-- Lists the pending timers that are due soonest.
--
-- in:    $1 limit bigint, $2 tenant_id text or null
-- out:   the columns of find_timer, soonest first
-- locks: nothing
-- index: timers_by_slot: the first of each slot, so that a million pending ones need no sort
select
    t.timer_key, 'PENDING' as state, t.tenant_id, t.name, t.timer_type, t.process_instance_key,
    t.element_instance_key, t.target_element_id, t.due_date, t.created_at, t.schedule, t.occurrence, t.target,
    t.payload::text as payload, null::timestamptz as ended_at, t.claimed_by as holder, null::text as detail
from generate_series(0, 839) as s (slot)
cross join lateral (
    select t.*
    from shardclock.timers t
    where t.slot = s.slot and ($2::text is null or t.tenant_id = $2)
    order by t.due_date
    limit $1
) t
order by t.due_date, t.timer_key
limit $1
