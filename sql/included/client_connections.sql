-- The number of clients' connections, and their limit for roles without special rights. For sessions of other roles, a
-- role without pg_read_all_stats can read the database but not backend_type.
(
    select count(*) from pg_stat_activity a
    where a.datid is not null and coalesce(a.backend_type, 'client backend') = 'client backend'
) as connections,
current_setting('max_connections')::integer
    - current_setting('superuser_reserved_connections')::integer
    - coalesce(current_setting('reserved_connections', true)::integer, 0) as connections_max, -- new in Postgres 16
