-- Of many instances few end otherwise than by completing: these are listed without reading the others. In an expression
-- the key is no use to who looks an instance up by it: docs/decisions/0005-queue-plans.md. The condition is written so that
-- the planner takes it for one that leaves nothing out: else it counts an outcome that is asked for twice, takes the rows
-- for few, and sorts all of them.
create index instances_by_outcome on shardclock.instances (outcome, (instance_key + 0))
where coalesce(outcome, 'COMPLETED') <> 'COMPLETED';
