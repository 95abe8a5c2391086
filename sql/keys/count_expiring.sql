-- Counts the live API keys that expire within :within, unless another live key of the same name expires later. Ignores
-- keys with a lifetime of less than twice :within, because these keys were made for a short use.
--
-- in:    :within text (ISO 8601): the time until the keys expire, :now timestamptz or null
-- out:   one row: keys bigint
-- locks: nothing
-- index: none: the whole table, which has a few rows for each tenant; api_keys_by_name for each key that expires soon
select count(*) as keys
from shardclock.api_keys k
cross join (select coalesce(:now::timestamptz, now()), :within::text::interval) as soon (moment, within)
where k.revoked_at is null
    and k.expires_at > soon.moment
    and k.expires_at <= soon.moment + soon.within
    and k.expires_at - k.created_at >= 2 * soon.within
    and not exists (
        select
        from shardclock.api_keys n
        where n.name = k.name
            and n.tenant_id is not distinct from k.tenant_id
            and n.revoked_at is null
            and coalesce(n.expires_at > k.expires_at, true)
    )
