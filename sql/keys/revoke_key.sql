-- Revokes an API key, so that the gateway refuses the key.
--
-- in:    :prefix text
-- out:   the columns of list_keys, one row; no row if the key does not exist, or was revoked before
-- locks: the key's row
-- index: api_keys_by_prefix
update shardclock.api_keys k
set revoked_at = now()
where k.prefix = :prefix and k.revoked_at is null
returning k.key_id, k.tenant_id, k.name, k.prefix, k.scopes, k.created_at, k.expires_at, k.revoked_at
