-- The waits of the running instance `r`, at most 1,000.
select t.target_element_id as node_id, 'timer' as kind, null as name, t.created_at as since
from shardclock.timers t
where t.process_instance_key + 0 = r.instance_key and (t.target = 'process:instance') is true
union all
select j.target_element_id, 'service task', j.target, j.created_at
from shardclock.deliveries j
where j.process_instance_key = r.instance_key and j.timer_type = 'SERVICE_TASK'
union all
select t.node_id, 'task', t.name, t.created_at
from shardclock.tasks t
where t.instance_key = r.instance_key and t.completed_at is null
union all
select s.node_id, s.kind, s.name, s.opened_at
from shardclock.subscriptions s
where s.instance_key = r.instance_key
union all
select
    (
        -- The called instance stores only the number of the calling token; the history has the token's element.
        select p.pass ->> 1
        from (
            select s.passes
            from shardclock.instance_steps s
            where s.instance_key = r.instance_key
            order by s.version desc
            limit 100
        ) s
        cross join lateral jsonb_array_elements(s.passes) as p (pass)
        where p.pass -> 0 = to_jsonb(c.parent_token)
        limit 1
    ),
    'call', c.process_id, c.started_at
from shardclock.instances c
where c.parent_key = r.instance_key and c.ended_at is null
union all
select n.node_id, 'incident', null, n.raised_at
from shardclock.incidents n
where n.instance_key = r.instance_key
-- The limit also keeps the planner from joining all timers, tasks and subscriptions.
limit 1000
