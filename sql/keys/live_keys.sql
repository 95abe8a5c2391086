-- Finds the given keys that are neither expired nor revoked, with their digests.
--
-- in:    :prefixes text[], :now timestamptz or null
-- out:   key_id bigint
--        tenant_id text or null (for all tenants)
--        name text, prefix text, scopes text[], created_at timestamptz, expires_at timestamptz or null
--        revoked_at timestamptz: always null
--        digest bytea
--        no row for a prefix without a live key
-- locks: nothing
-- index: api_keys_by_prefix, one probe for each prefix
select
    k.key_id, k.tenant_id, k.name, k.prefix, k.scopes, k.created_at, k.expires_at, k.revoked_at, k.digest
from shardclock.api_keys k
where k.prefix = any(:prefixes::text[])
    and k.revoked_at is null
    and coalesce(k.expires_at > coalesce(:now::timestamptz, now()), true)
