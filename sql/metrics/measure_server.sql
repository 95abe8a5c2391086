-- Measures the server's use of limited resources: connections, replicas, write-ahead log.
--
-- in:    nothing
-- out:   connections bigint: clients' connections to all databases
--        connections_max integer: the limit for roles without special rights
--        replica_lag_bytes bigint or null: the lag of the replica or replication slot that is furthest behind; null:
--          there is none
--        slots_inactive bigint: replication slots without a reader
--        wal_expected_bytes bigint: the size of the write-ahead log that the server's settings allow
--        lists_wal boolean: whether this role may execute measure_wal
-- locks: nothing
-- index: none, these are views of the server's memory
with behind as (
    select pg_wal_lsn_diff(pg_current_wal_lsn(), s.restart_lsn) as bytes from pg_replication_slots s
    union all
    select pg_wal_lsn_diff(pg_current_wal_lsn(), r.replay_lsn) from pg_stat_replication r
)
select
    -- include: included/client_connections.sql
    (select max(b.bytes) from behind b)::bigint as replica_lag_bytes,
    (select count(*) from pg_replication_slots s where not s.active) as slots_inactive,
    greatest(
        pg_size_bytes(current_setting('max_wal_size')), pg_size_bytes(current_setting('wal_keep_size'))
    ) as wal_expected_bytes,
    has_function_privilege('pg_catalog.pg_ls_waldir()', 'execute') as lists_wal
