-- Takes service tasks of a type for a program that does them itself.
--
-- in:    :task_type text, :most integer, :lease interval, :tenant_id text
-- out:   task_key bigint, claim integer, instance_key bigint, token bigint, node_id text, failed_attempts integer,
--        variables jsonb
-- locks: the tasks that it takes; leaves out rows that others have locked
-- index: deliveries_by_lane, deliveries_pkey
select t.task_key, t.claim, t.instance_key, t.token, t.node_id, t.failed_attempts, t.variables
from shardclock.activate_service_tasks(:task_type::text, :most::integer, :lease::interval, :tenant_id::text) as t
