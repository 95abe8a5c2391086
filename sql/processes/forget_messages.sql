-- Forgets messages whose time to live has passed, and starts that came with a key more than a day ago.
--
-- in:    :batch integer
-- out:   message_key bigint, of each
-- locks: the rows that it forgets; leaves out rows that others have locked
-- index: messages_by_age, process_starts_by_age
with starts_gone as (
    delete from shardclock.process_starts s
    where (s.tenant_id, s.idempotency_key) in (
        select o.tenant_id, o.idempotency_key
        from shardclock.process_starts o
        where o.asked_at < now() - interval '1 day'
        order by o.asked_at
        limit :batch::integer
        for update skip locked
    )
)
delete from shardclock.messages m
where m.message_key = any (
    array(
        select m.message_key
        from shardclock.messages m
        where m.expires_at <= now()
        order by m.expires_at
        limit :batch::integer
        for update skip locked
    )
)
returning m.message_key
