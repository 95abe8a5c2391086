-- Writes the results of a batch of signals (states, timers, tasks, subscriptions, history), and deletes the signals.
--
-- The statement skips an instance that another engine has advanced or is advancing. It also skips an instance if one of
-- its signals is missing, because another engine has processed or given up the signal.
--
-- in:    :holder bigint: the engine
--        :signals bigint[] and :signal_instances bigint[]: the signals, and their instances
--        :spent bigint[]: signals to ended instances; the statement records and deletes these signals
--        :descendants_max integer: the limit of called instances below one root that are running or about to begin
--        then JSON arrays of objects, each with its instance_key:
--        :steps jsonb: {instance_key, was (the version that was read; 0: the instance begins), definition_key,
--          tenant_id, process_id, parent_key, parent_token, root_key, state, outcome, error_code, result, signals,
--          passes}
--        :timers jsonb: {instance_key, token, node_id, tenant_id, timer_type, due_date, schedule, zone, name}
--        :service_tasks jsonb: {instance_key, token, node_id, tenant_id, target, payload, headers, attempts_max}
--        :tasks jsonb: {instance_key, token, node_id, tenant_id, process_id, name, assignee, candidate_groups,
--          candidate_users, due_date, form_key}
--        :subscriptions jsonb: {instance_key, token, node_id, tenant_id, process_id, kind, name, correlation, is_once}
--        :children jsonb: {instance_key, token, tenant_id, process_id, variables, depth, catches, root_key}
--        :closed jsonb: {instance_key, token, node_id (null: all)}
--        :incidents jsonb: {instance_key, token, node_id, sentence}
--        :resolved jsonb: {instance_key, token}
--        :sent jsonb: {instance_key, tenant_id, to_key, token, node_id, signal}
--        :returned jsonb: {instance_key, process_id, message (the key of a stored message that no token received)}
--        :thrown jsonb: {instance_key, tenant_id, name, variables}
-- out:   a row for each written instance: instance_key bigint
--        then a row for each root below which a call was refused: full_root bigint and refusal text
-- locks: the instances' rows, their signals, and the rows of waits that have ended, until the statement ends; skips
--        locked rows: a locked instance is not written; for a locked timer, task, subscription or child the instance
--        gets a signal, which deletes that row later
-- index: instances_pkey, deliveries_pkey, timers_by_token, deliveries_of_service_tasks, tasks_by_token,
--        subscriptions_by_instance, deliveries_of_children, incidents_pkey, instances_by_parent, messages_pkey: probes;
--        instances_by_root and deliveries_by_root, up to :descendants_max; subscriptions_in_order, one probe for each
--        thrown signal
with held as materialized (
    select d.timer_key
    from shardclock.deliveries d
    where d.timer_key = any (:signals::bigint[])
    for update skip locked
),
step as materialized (
    select s.*
    from jsonb_to_recordset(:steps::jsonb) as s (
        instance_key bigint, was bigint, definition_key bigint, tenant_id text, process_id text, parent_key bigint,
        parent_token bigint, root_key bigint, state text, outcome text, error_code text, result jsonb, signals jsonb, passes jsonb
    )
    where s.instance_key not in (
        select g.instance_key
        from unnest(:signals, :signal_instances::bigint[]) as g (timer_key, instance_key)
        where g.timer_key not in (select h.timer_key from held h)
    )
),
mine as materialized (
    select i.instance_key
    from (select s.* from step s where s.was > 0 order by s.instance_key) s
    cross join lateral (
        select i.instance_key
        from shardclock.instances i
        where i.instance_key = s.instance_key and i.version = s.was
        for no key update skip locked
    ) i
),
advanced as (
    update shardclock.instances i
    set version = i.version + 1,
        state = s.state,
        outcome = s.outcome,
        error_code = s.error_code,
        result = s.result,
        ended_at = case when s.outcome is not null then now() end
    from step s
    where i.instance_key = any (array(select mine.instance_key from mine))
        and s.instance_key = i.instance_key
        and i.version = s.was
    returning i.instance_key
),
begun as (
    insert into shardclock.instances (
        instance_key, definition_key, parent_key, parent_token, root_key, version, ended_at, tenant_id, process_id, outcome,
        error_code, state, result
    )
    select
        s.instance_key, s.definition_key, s.parent_key, s.parent_token, s.root_key, 1,
        case when s.outcome is not null then now() end, s.tenant_id, s.process_id, s.outcome, s.error_code, s.state,
        s.result
    from step s
    where s.was = 0
        -- If the root instance has ended, no called instance begins.
        and (select r.ended_at from shardclock.instances r where r.instance_key = s.root_key) is null
    on conflict do nothing
    returning instance_key
),
written as materialized (
    select a.instance_key from advanced a
    union all
    select b.instance_key from begun b
),
taken as (
    delete from shardclock.deliveries d
    where d.timer_key = any (
        array(
            select g.timer_key
            from unnest(:signals, :signal_instances) as g (timer_key, instance_key)
            where g.instance_key in (select w.instance_key from written w)
        )
    )
),
spent as (
    delete from shardclock.deliveries d
    -- Here and below, conditions with "is true" keep the planner from using another index:
    -- docs/decisions/0005-queue-plans.md.
    where d.timer_key = any (
            array(
                select l.timer_key
                from shardclock.deliveries l
                where l.timer_key = any (:spent::bigint[])
                for update skip locked
            )
        )
        and (d.target = 'process:instance') is true
    returning d.*
),
returned as (
    update shardclock.messages m
    set correlated = array(select c from unnest(m.correlated) c where c <> all (r.process_ids)), passed_over = true
    from (
        select r.message, array_agg(r.process_id) as process_ids
        from (
            select r.message, r.process_id
            from jsonb_to_recordset(:returned::jsonb) as r (instance_key bigint, message bigint, process_id text)
            where r.instance_key in (select w.instance_key from written w)
            union
            -- Accept any payload, because a client may have written it by SQL, and an error would fail the whole batch.
            select
                case when s.payload ->> 'message' ~ '^[0-9]{1,18}$' then (s.payload ->> 'message')::bigint end,
                (select i.process_id from shardclock.instances i where i.instance_key = s.process_instance_key)
            from spent s
            where s.payload -> 'message' is not null
        ) r
        where r.process_id is not null
        group by r.message
    ) r
    where m.message_key = r.message
),
remembered as (
    insert into shardclock.instance_steps (instance_key, version, holder, signals, passes)
    select s.instance_key, s.was + 1, :holder::bigint, s.signals, s.passes
    from step s
    where s.instance_key in (select w.instance_key from written w)
),
closed as materialized (
    select c.instance_key, c.token, c.node_id, s.tenant_id
    from jsonb_to_recordset(:closed::jsonb) as c (instance_key bigint, token bigint, node_id text)
    join step s on s.instance_key = c.instance_key
    where c.instance_key in (select w.instance_key from written w)
    union all
    -- The instance has ended: delete all rows of its tokens, including the next occurrence of a schedule that has just
    -- fired.
    select s.process_instance_key, s.element_instance_key, null, s.tenant_id
    from spent s
    where s.element_instance_key is not null
),
timers_gone as (
    delete from shardclock.timers t
    where t.timer_key = any (
        array(
            select t.timer_key
            from closed c
            cross join lateral (
                select t.timer_key
                from shardclock.timers t
                where t.process_instance_key + 0 = c.instance_key
                    and t.element_instance_key = c.token
                    and (c.node_id is null or t.target_element_id = c.node_id)
                    and (t.target = 'process:instance') is true
                for update skip locked
            ) t
        )
    )
    returning t.*
),
service_tasks_gone as (
    delete from shardclock.deliveries d
    where d.timer_key = any (
        array(
            select d.timer_key
            from closed c
            cross join lateral (
                select d.timer_key
                from shardclock.deliveries d
                where d.process_instance_key = c.instance_key
                    and d.element_instance_key = c.token
                    and d.timer_type = 'SERVICE_TASK'
                    and c.node_id is null
                for update skip locked
            ) d
        )
    )
    returning d.*
),
recorded as (
    insert into shardclock.command_log (
        timer_key, process_instance_key, element_instance_key, due_date, created_at, occurrence, holder, intent,
        tenant_id, timer_type, target, target_element_id, name, schedule, payload, detail
    )
    select
        t.timer_key, t.process_instance_key, t.element_instance_key, coalesce(t.paused_due_date, t.due_date), t.created_at, t.occurrence, :holder,
        'CANCELED', t.tenant_id, t.timer_type, t.target, t.target_element_id, t.name, t.schedule, t.payload,
        '{"reason": "its token waits no more"}'::jsonb
    from timers_gone t
    union all
    select
        s.timer_key, s.process_instance_key, s.element_instance_key, s.due_date, s.created_at, s.occurrence, :holder,
        'STALE', s.tenant_id, s.timer_type, s.target, s.target_element_id, s.name, s.schedule, s.payload, null
    from spent s
    union all
    -- If a program has leased the task, the DISCARDED record tells the program not to complete the task.
    select
        g.timer_key, g.process_instance_key, g.element_instance_key, g.due_date, g.created_at, g.occurrence, :holder,
        'DISCARDED', g.tenant_id, g.timer_type, g.target, g.target_element_id, g.name, g.schedule, null,
        '{"reason": "its token waits no more"}'::jsonb
    from service_tasks_gone g
),
tasks_gone as (
    -- Arrays and limits instead of joins, here and below, force the planner to probe the indexes
    -- (docs/decisions/0005-queue-plans.md).
    delete from shardclock.tasks t
    where t.ctid = any (
        array(
            select t.place
            from closed c
            cross join lateral (
                select t.ctid as place
                from shardclock.tasks t
                where t.instance_key = c.instance_key and t.token = c.token
                for update skip locked
            ) t
            where c.node_id is null
        )
    )
    returning t.task_key, t.instance_key, t.completed_at
),
subscriptions_gone as (
    delete from shardclock.subscriptions s
    where s.subscription_key = any (
        array(
            select s.subscription_key
            from closed c
            cross join lateral (
                select s.subscription_key
                from shardclock.subscriptions s
                where s.instance_key = c.instance_key and s.token = c.token
                    and (c.node_id is null or s.node_id = c.node_id)
                for update skip locked
            ) s
        )
    )
    returning s.subscription_key
),
begins_gone as (
    -- Delete the starts of called instances that no engine has begun yet.
    delete from shardclock.deliveries d
    where d.timer_key = any (
        array(
            select d.timer_key
            from closed c
            cross join lateral (
                select d.timer_key
                from shardclock.deliveries d
                where d.name like 'child:%' and d.name = 'child:' || c.instance_key || ':' || c.token
                    and (d.target = 'process:instance') is true
                limit 10
                for update skip locked
            ) d
            where c.node_id is null
        )
    )
    returning d.timer_key
),
still_there as materialized (
    -- Find the rows that were not deleted, because a client's open transaction has locked them, or an engine that
    -- begins a child.
    select c.instance_key, c.token, c.node_id, c.tenant_id
    from closed c
    cross join lateral (
        select s.subscription_key
        from shardclock.subscriptions s
        where s.instance_key = c.instance_key and s.token = c.token and (c.node_id is null or s.node_id = c.node_id)
        limit 1000000
    ) s
    where s.subscription_key not in (select g.subscription_key from subscriptions_gone g)
    union
    select c.instance_key, c.token, c.node_id, c.tenant_id
    from closed c
    cross join lateral (
        select t.timer_key
        from shardclock.timers t
        where t.process_instance_key + 0 = c.instance_key
            and t.element_instance_key = c.token
            and (c.node_id is null or t.target_element_id = c.node_id)
            and (t.target = 'process:instance') is true
        limit 1000000
    ) t
    where t.timer_key not in (select g.timer_key from timers_gone g)
    union
    select c.instance_key, c.token, c.node_id, c.tenant_id
    from closed c
    cross join lateral (
        select t.task_key
        from shardclock.tasks t
        where t.instance_key = c.instance_key and t.token = c.token
        limit 1000000
    ) t
    where c.node_id is null and t.task_key not in (select g.task_key from tasks_gone g)
    union
    select c.instance_key, c.token, c.node_id, c.tenant_id
    from closed c
    cross join lateral (
        select d.timer_key
        from shardclock.deliveries d
        where d.process_instance_key = c.instance_key
            and d.element_instance_key = c.token
            and d.timer_type = 'SERVICE_TASK'
        limit 1000000
    ) d
    where c.node_id is null and d.timer_key not in (select g.timer_key from service_tasks_gone g)
    union
    select c.instance_key, c.token, c.node_id, c.tenant_id
    from closed c
    cross join lateral (
        select d.timer_key
        from shardclock.deliveries d
        where d.name like 'child:%' and d.name = 'child:' || c.instance_key || ':' || c.token
            and (d.target = 'process:instance') is true
        limit 10
    ) d
    where c.node_id is null
        -- If a child begins during this statement, the next statement sees the child.
        and (
            d.timer_key not in (select g.timer_key from begins_gone g)
            or d.timer_key in (select h.timer_key from held h)
        )
),
children_gone as (
    select i.instance_key as to_key, i.tenant_id, null::bigint as token, '{"kind": "cancel"}'::jsonb as signal
    from closed c
    cross join lateral (
        select i.instance_key, i.tenant_id
        from shardclock.instances i
        where i.parent_key = c.instance_key and i.parent_token = c.token and i.ended_at is null
        limit 10
    ) i
    where c.node_id is null
),
planned as (
    insert into shardclock.timers (
        process_instance_key, element_instance_key, due_date, anchor, anchor_occurrence, repetitions, tenant_id,
        timer_type, target, target_element_id, zone, missed, name, schedule
    )
    select
        t.instance_key, t.token,
        -- A new schedule is due immediately, so that a shard claims the schedule and computes its first due date,
        -- without firing.
        coalesce(t.due_date, now()),
        case when t.schedule is not null then now() end,
        case when t.schedule is null then 0 end,
        case when t.schedule is null then 1 else -1 end,
        t.tenant_id, t.timer_type, 'process:instance', t.node_id,
        case when t.schedule is not null then coalesce(t.zone, 'UTC') end,
        case when t.schedule is not null then 'fire_once' end,
        t.name, t.schedule
    from jsonb_to_recordset(:timers::jsonb) as t (
        instance_key bigint, token bigint, node_id text, tenant_id text, timer_type text, due_date timestamptz,
        schedule text, zone text, name text
    )
    where t.instance_key in (select w.instance_key from written w)
),
called as materialized (
    select c.*
    from jsonb_to_recordset(:children::jsonb) as c (
        instance_key bigint, token bigint, tenant_id text, process_id text, variables jsonb, depth integer,
        catches jsonb, root_key bigint
    )
    where c.instance_key in (select w.instance_key from written w)
),
family as materialized (
    -- For each root, count the called instances that are live or about to begin, up to the limit.
    select
        f.root_key,
        (
            select count(*)
            from (
                select
                from shardclock.instances i
                where i.root_key = f.root_key and (i.root_key is not null and i.ended_at is null) is true
                limit :descendants_max::integer
            ) i
        ) + (
            select count(*)
            from (
                select
                from shardclock.deliveries d
                where d.payload ->> 'root' = f.root_key::text
                    and (
                        d.target = 'process:instance' and d.name like 'child:%' and length(d.payload ->> 'root') < 20
                    ) is true
                limit :descendants_max
            ) d
        ) as living
    from (select distinct c.root_key from called c) f
    -- Don't call an instance if the root instance has ended, because all instances below this root will be cancelled.
    where (select r.ended_at from shardclock.instances r where r.instance_key = f.root_key) is null
        and f.root_key not in (select s.instance_key from step s where s.outcome is not null)
),
child as materialized (
    select
        c.*,
        case
            when c.is_too_many
                then format(
                    'the process "%s" would be called while instance %s has %s called instances below it, and there may'
                    ' be %s; let fewer live at a time, or cancel instance %s; then resolve this',
                    left(c.process_id, 200), c.root_key, :descendants_max, :descendants_max, c.root_key
                )
            when d.definition_key is null
                then format('the process "%s" is not deployed; deploy it, and resolve this', left(c.process_id, 200))
        end as refusal,
        d.definition_key
    from (
        select
            c.*,
            f.living + row_number() over (partition by c.root_key order by c.instance_key, c.token)
                > :descendants_max as is_too_many
        from called c
        join family f on f.root_key = c.root_key
    ) c
    cross join lateral (select shardclock.find_definition(c.tenant_id, c.process_id) as definition_key) d
),
outgoing as materialized (
    select s.to_key, s.tenant_id, s.token, s.node_id, s.signal, null::text as name, interval '0' as delay
    from jsonb_to_recordset(:sent::jsonb) as s (
        instance_key bigint, tenant_id text, to_key bigint, token bigint, node_id text, signal jsonb
    )
    where s.instance_key in (select w.instance_key from written w)
    union all
    select g.to_key, g.tenant_id, g.token, null, g.signal, null, '0' from children_gone g
    union all
    -- The engine retries after this delay, because the transaction with the lock may be rolled back.
    select t.instance_key, t.tenant_id, t.token, t.node_id, '{"kind": "closed"}', null, '0.5 s' from still_there t
    union all
    select
        case when c.refusal is not null then c.instance_key end,
        c.tenant_id,
        case when c.refusal is not null then c.token end,
        null,
        case
            when c.refusal is not null then jsonb_build_object('kind', 'failed', 'reason', c.refusal)
            else jsonb_build_object(
                'kind', 'begin', 'definition', c.definition_key, 'variables', c.variables, 'parent', c.instance_key,
                'parent_token', c.token, 'root', c.root_key, 'depth', c.depth, 'catches', c.catches
            )
        end,
        'child:' || c.instance_key || ':' || c.token,
        '0'
    from child c
    union all
    -- Write a thrown signal only once; an engine later sends it to the subscriptions in batches.
    select
        null, t.tenant_id, null, null,
        jsonb_build_object(
            'kind', 'thrown', 'name', t.name, 'variables', t.variables, 'after', 0, 'until', s.subscription_key,
            'at', now()
        ),
        null, '0'
    from jsonb_to_recordset(:thrown::jsonb) as t (
        instance_key bigint, tenant_id text, name text, variables jsonb
    )
    cross join lateral (
        select s.subscription_key
        from shardclock.subscriptions s
        where s.tenant_id = t.tenant_id and s.name = t.name and (s.kind = 'signal') is true
        order by s.subscription_key + 0 desc
        limit 1
    ) s
    where t.instance_key in (select w.instance_key from written w)
),
queued as (
    -- New deliveries: service tasks for workers, and signals for engines.
    insert into shardclock.deliveries (
        timer_key, process_instance_key, element_instance_key, next_attempt_at, due_date, created_at, occurrence, slot,
        tenant_id, timer_type, target, target_element_id, name, payload, attempts_max, headers
    )
    select
        q.key, q.to_key, q.token, now() + q.delay, now(), now(), 1, coalesce(q.to_key, q.key) % 840, q.tenant_id, q.timer_type,
        q.target, q.node_id, q.name, q.signal, q.attempts_max, q.headers
    from (
        select nextval('shardclock.timer_key_seq') as key, u.*
        from (
            select
                o.*, 'USER' as timer_type, 'process:instance' as target, null::integer as attempts_max,
                null::jsonb as headers
            from outgoing o
            union all
            select
                j.instance_key, j.tenant_id, j.token, j.node_id, j.payload, null, '0', 'SERVICE_TASK', j.target,
                j.attempts_max, j.headers
            from jsonb_to_recordset(:service_tasks::jsonb) as j (
                instance_key bigint, token bigint, node_id text, tenant_id text, target text, payload jsonb,
                attempts_max integer, headers jsonb
            )
            where j.instance_key in (select w.instance_key from written w)
        ) u
    ) q
),
assigned as (
    insert into shardclock.tasks (
        task_key, instance_key, token, due_date, tenant_id, process_id, node_id, name, assignee, candidate_groups,
        candidate_users, form_key
    )
    select
        nextval('shardclock.timer_key_seq'), t.instance_key, t.token, t.due_date, t.tenant_id, t.process_id, t.node_id,
        t.name, t.assignee, coalesce(t.candidate_groups, '{}'), coalesce(t.candidate_users, '{}'), t.form_key
    from jsonb_to_recordset(:tasks::jsonb) as t (
        instance_key bigint, token bigint, node_id text, tenant_id text, process_id text, name text, assignee text,
        candidate_groups text[], candidate_users text[], due_date timestamptz, form_key text
    )
    where t.instance_key in (select w.instance_key from written w)
    -- Reopen a task if its completion had no effect because the task's token had stopped.
    on conflict on constraint tasks_by_token do update set completed_at = null
    returning task_key, instance_key, node_id, name, assignee, candidate_groups, candidate_users, due_date, form_key
),
acted as (
    insert into shardclock.task_acts (task_key, instance_key, act, actor, detail)
    -- Copy the task's properties to the act, because the act is kept longer than the task's row.
    select
        a.task_key, a.instance_key, 'CREATED', 'engine',
        jsonb_strip_nulls(
            jsonb_build_object(
                'node', a.node_id, 'name', a.name, 'assignee', a.assignee,
                'candidate_groups', nullif(a.candidate_groups, '{}'),
                'candidate_users', nullif(a.candidate_users, '{}'), 'due_date', a.due_date, 'form_key', a.form_key
            )
        )
    from assigned a
    union all
    select g.task_key, g.instance_key, 'CANCELED', 'engine', '{}' from tasks_gone g where g.completed_at is null
),
subscribed as (
    insert into shardclock.subscriptions (
        instance_key, token, is_once, kind, tenant_id, name, correlation, process_id, node_id
    )
    select s.instance_key, s.token, s.is_once, s.kind, s.tenant_id, s.name, s.correlation, s.process_id, s.node_id
    from jsonb_to_recordset(:subscriptions::jsonb) as s (
        instance_key bigint, token bigint, node_id text, tenant_id text, process_id text, kind text, name text,
        correlation text, is_once boolean
    )
    where s.instance_key in (select w.instance_key from written w)
),
resolved as (
    -- Delete resolved incidents, incidents of redriven signals, and all incidents of ended instances.
    delete from shardclock.incidents i
    where i.instance_key = any (array(select w.instance_key from written w))
        and (
            (
                i.signal_key = 0
                and (i.instance_key, i.token) in (
                    select r.instance_key, r.token
                    from jsonb_to_recordset(:resolved::jsonb) as r (instance_key bigint, token bigint)
                )
            )
            or i.signal_key = any (:signals)
            or i.instance_key in (select s.instance_key from step s where s.outcome is not null)
        ) is true
),
raised as (
    insert into shardclock.incidents (instance_key, token, node_id, sentence)
    select i.instance_key, i.token, i.node_id, i.sentence
    from jsonb_to_recordset(:incidents::jsonb) as i (
        instance_key bigint, token bigint, node_id text, sentence text
    )
    where i.instance_key in (select w.instance_key from written w)
    on conflict on constraint incidents_pkey
        do update set node_id = excluded.node_id, sentence = excluded.sentence, raised_at = excluded.raised_at
)
select w.instance_key, null::bigint as full_root, null::text as refusal from written w
union all
select null, c.root_key, min(c.refusal) from child c where c.is_too_many group by c.root_key
