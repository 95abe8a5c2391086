-- Finds instances that wait for a message which is kept: an engine died before it could look.
--
-- in:    :batch integer
-- out:   instance_key bigint, of each
-- locks: nothing
-- index: messages_by_age, from now on; subscriptions_by_name, one probe for each message
select distinct s.instance_key
from (
    select m.*
    from shardclock.messages m
    where m.expires_at > now()
    order by m.expires_at
    limit :batch::integer
) m
cross join lateral (
    select s.instance_key
    from shardclock.subscriptions s
    where s.tenant_id = m.tenant_id and s.kind = 'message' and s.name = m.name and s.correlation = m.correlation
        and s.instance_key is not null and s.taken_by is null and s.process_id <> all (m.correlated)
    limit 100
) s
