-- Finds the given live sessions, with their API keys or persons. A session ends together with its key.
--
-- in:    :digests bytea[], :now timestamptz or null
-- out:   digest bytea
--        issuer text or null (the session belongs to an API key)
--        subject text or null, person text or null, groups text[] or null
--        key_id bigint or null (the session belongs to a person)
--        tenant_id text or null (for all tenants)
--        name text or null, prefix text or null, scopes text[] or null, created_at timestamptz or null, expires_at
--          timestamptz or null
--        revoked_at timestamptz: always null
--        a session that has ended has no row
-- locks: nothing
-- index: console_sessions_pkey, one probe for each digest; api_keys_pkey
select
    s.digest, s.issuer, s.subject, s.name as person, s.groups, k.key_id, k.tenant_id, k.name, k.prefix, k.scopes,
    k.created_at, k.expires_at, k.revoked_at
from shardclock.console_sessions s
left join shardclock.api_keys k on k.key_id = s.key_id
cross join (select coalesce(:now::timestamptz, now())) as c (moment)
where s.digest = any(:digests::bytea[])
    and s.expires_at > c.moment
    and (s.key_id is null or k.key_id is not null)
    and k.revoked_at is null
    and coalesce(k.expires_at > c.moment, true)
