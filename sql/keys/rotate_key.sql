-- Creates a second API key with the tenant, name and scopes of a live key, and lets the first key expire soon.
--
-- in:    :old_prefix text
--        :overlap text: the time until the first key expires, as an ISO 8601 duration
--        :prefix text, :digest bytea
--        :lifetime text or null: an ISO 8601 duration; null: the second key never expires
--        :now timestamptz or null
-- out:   key_id bigint, tenant_id text, name text, prefix text, scopes text[], created_at timestamptz, expires_at
--          timestamptz or null, revoked_at timestamptz or null
--        old_expires_at timestamptz: when the first key expires
--        one row; no row if the first key is not live, or if another key of its name is live
-- locks: the first key's row; the caller has sent lock_api_keys, so that two concurrent calls don't create a third key
-- index: api_keys_by_prefix, api_keys_by_name
with old as (
    select k.key_id, k.tenant_id, k.name, k.scopes, c.moment
    from (select coalesce(:now::timestamptz, now())) as c (moment)
    join shardclock.api_keys k on k.prefix = :old_prefix
    where k.revoked_at is null
        and coalesce(k.expires_at > c.moment, true)
        and not exists (
            select
            from shardclock.api_keys o
            where o.name = k.name
                and o.tenant_id is not distinct from k.tenant_id
                and o.key_id <> k.key_id
                and o.revoked_at is null
                and coalesce(o.expires_at > c.moment, true)
        )
),
shortened as (
    update shardclock.api_keys k
    set expires_at = least(k.expires_at, old.moment + :overlap::text::interval)
    from old
    where k.key_id = old.key_id
    returning k.expires_at
)
insert into shardclock.api_keys (tenant_id, name, prefix, digest, scopes, created_at, expires_at)
select
    old.tenant_id, old.name, :prefix::text, :digest::bytea, old.scopes, old.moment,
    old.moment + :lifetime::text::interval
from old
returning
    key_id, tenant_id, name, prefix, scopes, created_at, expires_at, revoked_at,
    (select s.expires_at from shortened s) as old_expires_at
