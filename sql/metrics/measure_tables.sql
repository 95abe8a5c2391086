-- Measures each table of the schema. All partitions of a partitioned table count as one table.
--
-- in:    nothing
-- out:   table_name text
--        live_rows bigint and dead_rows bigint: from Postgres's statistics
--        bytes bigint: including the indexes
-- locks: nothing
-- index: none, the catalog is small
with parts as (
    select
        c.oid,
        case
            when c.relname like 'command\_log%' then 'command_log'
            when c.relname like 'idempotent\_requests%' then 'idempotent_requests'
            else c.relname::text
        end as table_name
    from pg_class c
    where c.relnamespace = 'shardclock'::regnamespace and c.relkind = 'r'
)
select
    p.table_name,
    sum(s.n_live_tup)::bigint as live_rows,
    sum(s.n_dead_tup)::bigint as dead_rows,
    sum(pg_total_relation_size(p.oid))::bigint as bytes
from parts p
join pg_stat_user_tables s on s.relid = p.oid
group by p.table_name
order by p.table_name
