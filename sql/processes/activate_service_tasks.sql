-- Takes service tasks of a type for a program that does them itself.
--
-- in:    :task_type text, :most integer, :lease interval, :tenant_id text, :worker text or null (what the program calls
--        itself)
-- out:   task_key bigint, claim integer, instance_key bigint, token bigint, node_id text, failed_attempts integer,
--        variables jsonb, type text, process_id text, version integer, business_key text or null, headers jsonb,
--        attempts_left integer, claimed_until timestamptz
-- locks: the tasks that it takes; leaves out rows that others have locked
-- index: deliveries_by_lane, deliveries_pkey; instances_pkey, definitions_pkey, business_keys_pkey: a probe for each task
select
    t.task_key, t.claim, t.instance_key, t.token, t.node_id, t.failed_attempts, t.variables, t.type, t.process_id,
    t.version, t.business_key, t.headers, t.attempts_left, t.claimed_until
from shardclock.activate_service_tasks(
    :task_type::text, :most::integer, :lease::interval, :tenant_id::text, :worker::text
) as t
