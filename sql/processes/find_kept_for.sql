-- Finds instances that wait for a stored message; reads one page of the stored messages. Usually an engine sends a
-- stored message to an instance as soon as the instance waits for it. This statement finds two exceptions: the engine
-- died before it sent the message, or the token that got the message has ended.
--
-- in:    :after_expires_at timestamptz
--        :after_key bigint: the cursor of the page
--        :batch integer
-- out:   instance_key bigint or null (no instance waits)
--        expires_at timestamptz
--        message_key bigint: the last message of the page; no row: there are no more messages
-- locks: nothing
-- index: messages_by_age, from the cursor on; subscriptions_by_name, one probe for each message
with page as materialized (
    select m.*
    from shardclock.messages m
    where m.expires_at > now() and (m.expires_at, m.message_key) > (:after_expires_at::timestamptz, :after_key::bigint)
    order by m.expires_at, m.message_key
    limit :batch::integer
),
waiting as materialized (
    select distinct s.instance_key
    from page m
    cross join lateral (
        select s.instance_key
        from shardclock.subscriptions s
        where s.tenant_id = m.tenant_id and s.kind = 'message' and s.name = m.name and s.correlation = m.correlation
            and (s.instance_key is not null) is true and s.taken_by is null and s.process_id <> all (m.correlated)
        limit 100
    ) s
)
select w.instance_key, l.expires_at, l.message_key
from (select p.expires_at, p.message_key from page p order by p.expires_at desc, p.message_key desc limit 1) l
left join waiting w on true
