-- Deletes the idempotency keys of starts that are older than a day.
--
-- in:    :batch integer
-- out:   instance_key bigint, of each deleted key
-- locks: the rows that it deletes; skips locked rows
-- index: process_starts_by_age, process_starts_pkey
delete from shardclock.process_starts s
where (s.tenant_id, s.idempotency_key) in (
    select o.tenant_id, o.idempotency_key
    from shardclock.process_starts o
    where o.asked_at < now() - interval '1 day'
    order by o.asked_at
    limit :batch::integer
    for update skip locked
)
returning s.instance_key
