-- Finds incidents, the newest first.
--
-- in:    :tenant_id text or null (null: of all), :process_id text or null, :version integer or null (of the process),
--        :saying text or null (what the sentence says, upper or lower case), :only_stopped boolean (leave out signals
--        that no engine could take: those are dead letters), :page_size integer
-- out:   instance_key bigint, tenant_id text, process_id text, version integer, token bigint, node_id text,
--        signal_key bigint (0: the token has stopped), sentence text, raised_at timestamptz
-- locks: nothing
-- index: the whole of incidents, which somebody should keep small; instances_pkey and definitions_pkey, one probe each
select
    n.instance_key, i.tenant_id, i.process_id, d.version, n.token, n.node_id, n.signal_key, n.sentence, n.raised_at
from shardclock.incidents n
join shardclock.instances i on i.instance_key = n.instance_key
join shardclock.definitions d on d.definition_key = i.definition_key
where (:tenant_id::text is null or i.tenant_id = :tenant_id)
    and (:process_id::text is null or i.process_id = :process_id)
    and (:version::integer is null or d.version = :version)
    and (:saying::text is null or position(lower(:saying) in lower(n.sentence)) > 0)
    and (not :only_stopped::boolean or n.signal_key = 0)
order by n.raised_at desc, n.instance_key desc, n.token desc
limit :page_size::integer
