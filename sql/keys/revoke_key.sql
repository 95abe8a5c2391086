-- Revokes an API key that was not revoked yet: from now on it is refused.
--
-- in:    :prefix text
-- out:   the columns of list_keys; one row, or none if there is no such key, or somebody has revoked it before
-- locks: the key's row
-- index: api_keys_by_prefix
update shardclock.api_keys k
set revoked_at = now()
where k.prefix = :prefix and k.revoked_at is null
returning k.key_id, k.tenant_id, k.name, k.prefix, k.scopes, k.created_at, k.expires_at, k.revoked_at
