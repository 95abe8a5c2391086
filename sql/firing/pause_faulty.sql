-- Pauses a leased timer that can't be fired, until a client repairs the timer; the log has the reason.
--
-- in:    :holder bigint, :timer_key bigint, :version xid (of the row that was claimed), :why text
-- out:   timer_key bigint; no row if the timer is locked or has changed, or if the holder's claim has ended
-- locks: the timer's row
-- index: timers_pkey; event_subscriptions_pkey
with unlocked as materialized (
    select t.timer_key from shardclock.timers t where t.timer_key = :timer_key for update of t skip locked
),
paused as (
    update shardclock.timers t
    set paused_due_date = t.due_date, due_date = '9999-12-31 23:59:59.999998+00',
        changed_at = clock_timestamp(), missed_once = null, claimed_by = null, claimed_until = null
    where t.timer_key = (select unlocked.timer_key from unlocked) and t.claimed_by = :holder and t.xmin = :version
    returning t.*
),
-- Writes the operator event here, because a trigger on timers would make each firing slower.
noted as (
    insert into shardclock.operator_events (tenant_id, kind, subject, sentence, detail)
    select
        p.tenant_id, 'schedule.paused', coalesce(p.name, p.timer_key::text),
        format('timer %s is paused, because no shard can fire it: %s', coalesce(p.name, p.timer_key::text), :why::text),
        jsonb_build_object('timer_key', p.timer_key, 'name', p.name, 'schedule', p.schedule, 'reason', :why)
    from paused p
    where exists (
        select
        from shardclock.event_subscriptions s
        where s.tenant_id = p.tenant_id and 'schedule.paused' = any (s.kinds)
    )
)
insert into shardclock.command_log (
    timer_key, process_instance_key, element_instance_key, due_date, created_at, occurrence, holder,
    intent, tenant_id, timer_type, target, target_element_id, name, schedule, payload, detail
)
select
    p.timer_key, p.process_instance_key, p.element_instance_key, p.paused_due_date, p.created_at, p.occurrence, :holder,
    'PAUSED', p.tenant_id, p.timer_type, p.target, p.target_element_id, p.name, p.schedule, p.payload,
    jsonb_build_object('refused', :why)
from paused p
returning timer_key
