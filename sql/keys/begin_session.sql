-- Begins a session of the console for an API key, and deletes the key's oldest sessions above a limit.
--
-- in:    :digest bytea, :key_id bigint, :lifetime text (ISO 8601), :most bigint: the limit of the key's sessions,
--          including the new session, :now timestamptz or null
-- out:   one row: expires_at timestamptz
-- locks: the new row and the deleted rows
-- index: console_sessions_by_key
with surplus as (
    delete from shardclock.console_sessions d
    where d.digest in (
        select s.digest
        from shardclock.console_sessions s
        where s.key_id = :key_id
        order by s.created_at desc
        offset greatest(:most::bigint - 1, 0)
    )
)
insert into shardclock.console_sessions (digest, key_id, created_at, expires_at)
select :digest::bytea, :key_id::bigint, c.moment, c.moment + :lifetime::text::interval
from (select coalesce(:now::timestamptz, now())) as c (moment)
returning expires_at
