-- Finds the names of API keys, including ended keys.
--
-- in:    :prefixes text[], :tenant_id text or null: only this tenant's keys
-- out:   prefix text, name text; no row for an unknown prefix
-- locks: nothing
-- index: api_keys_by_prefix, one probe for each prefix
select k.prefix, k.name
from shardclock.api_keys k
where k.prefix = any(:prefixes::text[])
    and (:tenant_id::text is null or k.tenant_id = :tenant_id)
