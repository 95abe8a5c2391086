-- Records a new incarnation of a shard actor, as yet without an assignment; a database that is nobody's becomes its own.
--
-- in:    $1 holder bigint, $2 cluster_id text, $3 actor_name text, $4 node_id text, $5 host text, $6 pid integer,
--        $7 identity text: the installation it is configured for, or ''
-- out:   nothing
-- locks: the new row, and the identity row while it lacks something
-- index: holders_pkey
with adopted as materialized (
    select shardclock.adopt($7::text)
)
insert into shardclock.holders (holder, cluster_id, actor_name, node_id, host, pid, identity)
select $1::bigint, $2::text, $3::text, $4::text, $5::text, $6::integer, $7
from adopted
on conflict (holder) do nothing
