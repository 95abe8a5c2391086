-- The state of the open delivery `d`, and its claim.
d.timer_key, d.target, d.tenant_id, d.name,
case when d.claimed_until > now() then 'IN_HAND' else 'WAITING' end as state,
d.failed_attempts, d.next_attempt_at,
case when d.claimed_until > now() and d.claimed_by <> 0 then d.claimed_by end as holder,
case when d.claimed_until > now() and d.claimed_by = 0 then d.worker end as worker,
case when d.claimed_until > now() then d.claimed_until end as claimed_until,
