-- Finds incidents, newest first. A given-up start counts as an incident, although its instance has not begun.
--
-- in:    :tenant_id text or null (all tenants)
--        :process_id text or null
--        :version integer or null: a version of the process
--        :containing text or null: a part of the sentence; upper and lower case are equal
--        :only_stopped boolean: leave out dead letters, which are the signals and starts that no engine could process
--        :page_size integer
-- out:   instance_key bigint, tenant_id text, process_id text, version integer, token bigint, node_id text
--        signal_key bigint: 0 if the token has stopped
--        sentence text, raised_at timestamptz
--        for a start, the columns have the values of find_instance
-- locks: nothing
-- index: incidents, all rows, which operators should keep few; instances_pkey and definitions_pkey, one probe for each
--        row; definitions_by_process, for the list of tenants; then for each tenant dead_letters_of_starts_by_death,
--        backwards: at most a page if no other filter excludes rows
select
    f.instance_key, f.tenant_id, f.process_id, f.version, f.token, f.node_id, f.signal_key, f.sentence, f.raised_at
from (
    select
        n.instance_key, i.tenant_id, i.process_id, d.version, n.token, n.node_id, n.signal_key, n.sentence, n.raised_at
    from shardclock.incidents n
    cross join lateral (
        select i.tenant_id, i.process_id, i.definition_key
        from shardclock.instances i
        where i.instance_key = n.instance_key
        limit 1
    ) i
    join shardclock.definitions d on d.definition_key = i.definition_key
    where (:tenant_id::text is null or i.tenant_id = :tenant_id)
        and (:process_id::text is null or i.process_id = :process_id)
        and (:version::integer is null or d.version = :version)
        and (:containing::text is null or position(lower(:containing) in lower(n.sentence)) > 0)
        and (not :only_stopped::boolean or n.signal_key = 0)
    union all
    select s.timer_key, t.tenant_id, s.process_id, s.version, 1, s.node_id, s.timer_key, s.sentence, s.died_at
    from (
        -- List the tenants, because the index has the rows of each tenant in order.
        select distinct d.tenant_id
        from shardclock.definitions d
        where (:tenant_id is null or d.tenant_id = :tenant_id) and not :only_stopped
    ) t
    cross join lateral (
        select
            start.timer_key, d.process_id, d.version, coalesce(start.target_element_id, '') as node_id, w.sentence,
            start.died_at
        from shardclock.dead_letters start
        -- include: included/definition_of_start.sql
        cross join lateral (
            select format(
                'its start was given up: %s; shardclock dead-letters redrive %s begins it', start.reason,
                start.timer_key
            ) as sentence
        ) w
        where (start.target = 'process:instance' and start.process_instance_key is null) is true
            and start.tenant_id = coalesce(:tenant_id, t.tenant_id)
            and (:process_id is null or d.process_id = :process_id)
            and (:version is null or d.version = :version)
            and (:containing is null or position(lower(:containing) in lower(w.sentence)) > 0)
        order by start.died_at desc, start.timer_key + 0 desc
        limit :page_size::integer
    ) s
) f
order by f.raised_at desc, f.instance_key desc, f.token desc
limit :page_size
