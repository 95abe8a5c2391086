-- Lists the consumer groups with their lag.
--
-- in:    :most integer or null: only this number of groups, the groups with the largest lag; null: all groups
-- out:   group_name text, partitions integer
--        position bigint: the position of the partition that is furthest behind
--        lag_records bigint: exact up to 10,000 for each partition
--        lag_s double precision: the age of the oldest unprocessed record
--        idle_s double precision or null: the time since the group last processed records; null: it has processed none
--        attempts integer: the largest number of attempts at one record
--        failures bigint, set_aside bigint, error text or null
--        members text[]: the members that hold leases
-- locks: nothing
-- index: command_log_in_order of each partition; records_aside_pkey
with log as materialized (
    select
        shardclock.log_horizon() as horizon,
        -- Records of a dropped partition can't be read, so they don't count as lag.
        (select min(l.position) - 1 from shardclock.command_log l) as gone
),
listed as materialized (
    select c.group_name
    from shardclock.consumers c
    group by c.group_name
    order by min(c.position), c.group_name
    limit :most::integer
),
behind as materialized (
    select
        c.group_name, c.partition, c.partitions, c.position, c.worked_at, c.attempts, c.failures, c.error, c.failed_at,
        case when c.leased_until > clock_timestamp() then c.leased_by end as member,
        case
            when log.horizon - greatest(c.position, log.gone) > 10000
                then (log.horizon - greatest(c.position, log.gone)) / c.partitions
            else (
                select count(*)
                from shardclock.read_log(c.position, 10000, c.partition::integer, c.partitions::integer) l
            )
        end as lag_records,
        (
            select l.recorded_at
            from shardclock.read_log(c.position, 1, c.partition::integer, c.partitions::integer) l
        ) as oldest_at
    from shardclock.consumers c
    join listed on listed.group_name = c.group_name
    cross join log
)
select
    b.group_name,
    max(b.partitions)::integer as partitions,
    min(b.position) as position,
    sum(b.lag_records)::bigint as lag_records,
    coalesce(greatest(extract(epoch from clock_timestamp() - min(b.oldest_at)), 0), 0)::double precision as lag_s,
    extract(epoch from clock_timestamp() - max(b.worked_at))::double precision as idle_s,
    max(b.attempts) as attempts,
    sum(b.failures)::bigint as failures,
    (select count(*) from shardclock.records_aside a where a.group_name = b.group_name) as set_aside,
    (array_agg(b.error order by b.failed_at desc nulls last))[1] as error,
    array_remove(array_agg(b.member order by b.partition), null) as members
from behind b
group by b.group_name
order by b.group_name
