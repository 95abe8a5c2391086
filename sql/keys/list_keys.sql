-- Lists API keys, including ended keys, by tenant, name and age; keys for all tenants come first.
--
-- in:    :tenant_id text or null: only this tenant's keys, :prefix text or null: only this key, :limit bigint
-- out:   key_id bigint, tenant_id text or null: for all tenants, name text, prefix text, scopes text[],
--        created_at timestamptz, expires_at timestamptz or null, revoked_at timestamptz or null
-- locks: nothing
-- index: api_keys_by_prefix, or the whole table, which has a few rows for each tenant
select k.key_id, k.tenant_id, k.name, k.prefix, k.scopes, k.created_at, k.expires_at, k.revoked_at
from shardclock.api_keys k
where (:tenant_id::text is null or k.tenant_id = :tenant_id)
    and (:prefix::text is null or k.prefix = :prefix)
order by k.tenant_id nulls first, k.name, k.created_at, k.key_id
limit :limit
