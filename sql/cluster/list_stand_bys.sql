-- Lists the clusters of local processes that can lead while a Ray cluster is down. Finds the clusters by the database
-- sessions of their coordinators, because the clusters may have no keepers yet.
--
-- in:    nothing
-- out:   cluster_id text (at most 43 characters), in ascending order
-- locks: nothing
-- index: none, Postgres's own list of sessions
select distinct split_part(a.application_name, ' ', 3) as cluster_id
from pg_stat_activity a
where a.datname = current_database() and a.application_name like 'shardclock stand-by %'
order by 1
