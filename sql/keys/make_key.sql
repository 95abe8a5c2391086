-- Creates an API key, unless the tenant already has two live keys with this name, for example during a rotation.
--
-- in:    :tenant_id text or null: for all tenants, :name text, :prefix text, :digest bytea, :scopes text[],
--        :lifetime text (ISO 8601) or null: it never expires, :now timestamptz or null
-- out: the columns of list_keys, one row; no row if there are two live keys
-- locks: the new row; the caller has sent lock_api_keys, so that two concurrent calls don't make a third key
-- index: api_keys_by_name
insert into shardclock.api_keys (tenant_id, name, prefix, digest, scopes, created_at, expires_at)
select
    :tenant_id::text, :name::text, :prefix::text, :digest::bytea, :scopes::text[], c.moment,
    c.moment + :lifetime::text::interval
from (select coalesce(:now::timestamptz, now())) as c (moment)
where (
    select count(*)
    from shardclock.api_keys k
    where k.name = :name
        and k.tenant_id is not distinct from :tenant_id
        and k.revoked_at is null
        and coalesce(k.expires_at > c.moment, true)
) < 2
returning key_id, tenant_id, name, prefix, scopes, created_at, expires_at, revoked_at
