-- Records a new incarnation of a shard actor, as yet without an assignment.
--
-- in:    $1 holder bigint, $2 cluster_id text, $3 actor_name text, $4 node_id text, $5 host text, $6 pid integer
-- out:   nothing
-- locks: the new row
-- index: holders_pkey
insert into shardclock.holders (holder, cluster_id, actor_name, node_id, host, pid)
values ($1, $2, $3, $4, $5, $6)
on conflict (holder) do nothing
