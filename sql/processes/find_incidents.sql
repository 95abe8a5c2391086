-- Finds incidents, the newest first. A start that was given up is one, of an instance that never began.
--
-- in:    :tenant_id text or null (null: of all), :process_id text or null, :version integer or null (of the process),
--        :saying text or null (what the sentence says, upper or lower case), :only_stopped boolean (leave out signals
--        that no engine could take, starts among them: those are dead letters), :page_size integer
-- out:   instance_key bigint, tenant_id text, process_id text, version integer, token bigint, node_id text,
--        signal_key bigint (0: the token has stopped), sentence text, raised_at timestamptz; a start's as find_instance
--        tells them
-- locks: nothing
-- index: the whole of incidents, which somebody should keep small; instances_pkey and definitions_pkey, one probe each;
--        the tenants of definitions_by_process, and for each dead_letters_of_starts_by_death, backwards: no more than
--        the page, if no other filter leaves some out
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
        and (:saying::text is null or position(lower(:saying) in lower(n.sentence)) > 0)
        and (not :only_stopped::boolean or n.signal_key = 0)
    union all
    select s.timer_key, t.tenant_id, s.process_id, s.version, 1, s.node_id, s.timer_key, s.sentence, s.died_at
    from (
        -- The index has them in order for each tenant.
        select distinct d.tenant_id
        from shardclock.definitions d
        where (:tenant_id is null or d.tenant_id = :tenant_id) and not :only_stopped
    ) t
    cross join lateral (
        select l.timer_key, d.process_id, d.version, coalesce(l.target_element_id, '') as node_id, w.sentence, l.died_at
        from shardclock.dead_letters l
        cross join lateral (
            select d.process_id, d.version
            from shardclock.definitions d
            -- Somebody may have sent anything by hand, and one such start must not hide all others.
            where d.definition_key
                = case when l.payload ->> 'definition' ~ '^[0-9]{1,18}$' then (l.payload ->> 'definition')::bigint end
            limit 1
        ) d
        cross join lateral (
            select format(
                'its start was given up: %s; shardclock dead-letters redrive %s begins it', l.reason, l.timer_key
            ) as sentence
        ) w
        where (l.target = 'process:instance' and l.process_instance_key is null) is true
            and l.tenant_id = coalesce(:tenant_id, t.tenant_id)
            and (:process_id is null or d.process_id = :process_id)
            and (:version is null or d.version = :version)
            and (:saying is null or position(lower(:saying) in lower(w.sentence)) > 0)
        order by l.died_at desc, l.timer_key + 0 desc
        limit :page_size::integer
    ) s
) f
order by f.raised_at desc, f.instance_key desc, f.token desc
limit :page_size
