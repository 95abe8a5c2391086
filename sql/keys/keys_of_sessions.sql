-- Finds the API keys of the given sessions that have not ended. A session ends with its key.
--
-- in:    :digests bytea[], :now timestamptz or null
-- out:   digest bytea, key_id bigint, tenant_id text or null: for all tenants, name text, prefix text, scopes text[],
--        created_at timestamptz, expires_at timestamptz or null, revoked_at timestamptz (null); a session that has
--        ended has no row
-- locks: nothing
-- index: console_sessions_pkey, one probe for each digest; api_keys_pkey
select
    s.digest, k.key_id, k.tenant_id, k.name, k.prefix, k.scopes, k.created_at, k.expires_at, k.revoked_at
from shardclock.console_sessions s
join shardclock.api_keys k on k.key_id = s.key_id
cross join (select coalesce(:now::timestamptz, now())) as c (moment)
where s.digest = any(:digests::bytea[])
    and s.expires_at > c.moment
    and k.revoked_at is null
    and coalesce(k.expires_at > c.moment, true)
