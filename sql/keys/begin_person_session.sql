-- Begins a session of the console for a person, and deletes the person's oldest sessions above a limit.
--
-- in:    :digest bytea, :issuer text, :subject text, :name text, :groups text[]
--        :lifetime text: an ISO 8601 duration
--        :most bigint: the limit of the person's sessions, including the new session
--        :now timestamptz or null
-- out:   one row: expires_at timestamptz
-- locks: the new row and the deleted rows
-- index: console_sessions_by_person
with surplus as (
    delete from shardclock.console_sessions d
    where d.digest in (
        select s.digest
        from shardclock.console_sessions s
        where s.issuer = :issuer
            and s.subject = :subject
        order by s.created_at desc
        offset greatest(:most::bigint - 1, 0)
    )
)
insert into shardclock.console_sessions (digest, issuer, subject, name, groups, created_at, expires_at)
select
    :digest::bytea, :issuer::text, :subject::text, :name::text, :groups::text[], c.moment,
    c.moment + :lifetime::text::interval
from (select coalesce(:now::timestamptz, now())) as c (moment)
returning expires_at
