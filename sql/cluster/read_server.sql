-- Reads the server's version, and the settings and the state that are important for an installation.
--
-- in:    nothing
-- out:   one row:
--        major integer: 15 to 18
--        role text: the current role
--        has_schema boolean: whether the schema shardclock exists
--        server_time timestamptz
--        connections bigint: clients' connections to all databases
--        connections_max integer: the limit for roles without special rights
--        is_standby boolean
--        unsafe text[]: settings with which a crash may lose or damage committed rows
--        vacuums boolean
--        oldest_transaction_s double precision: the age of the oldest open transaction that vacuum must respect; null:
--          no other transaction is open
--        prepared bigint: the number of prepared transactions (two-phase commit) that are still open
-- locks: nothing
-- index: none, these are views of the server's memory
select
    current_setting('server_version_num')::integer / 10000 as major,
    current_user::text as role,
    to_regnamespace('shardclock') is not null as has_schema,
    clock_timestamp() as server_time,
    -- include: included/client_connections.sql
    pg_is_in_recovery() as is_standby,
    array(
        select s.name
        from unnest('{fsync,full_page_writes,synchronous_commit}'::text[]) as s (name)
        where current_setting(s.name) = 'off'
    ) as unsafe,
    current_setting('autovacuum')::boolean and current_setting('track_counts')::boolean as vacuums,
    (
        select extract(epoch from clock_timestamp() - min(a.xact_start))::double precision
        from pg_stat_activity a
        where a.backend_xmin is not null and a.pid <> pg_backend_pid()
    ) as oldest_transaction_s,
    (select count(*) from pg_prepared_xacts) as prepared
