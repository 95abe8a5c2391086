-- Lists the holders that have not ended, of one role or of all.
--
-- in:    :role text or null (of all roles)
-- out:   holder bigint, role text, cluster_id text, actor_name text, node_id text, host text, pid integer
--        part integer and part_count integer: nulls: the holder has no slots
--        held integer: the number of timers in its memory
--        started_at timestamptz, seen_at timestamptz, suspended_at timestamptz or null, silent_s double precision
--        identity text: the installation that the holder is configured for; '': none
--        hold_reason text or null: the reason if it must not fire
--        foreign_reason text or null: the reason if the database belongs to another installation
-- locks: nothing
-- index: none, the table is small; beats_pkey, newest first
select
    holder, role, cluster_id, actor_name, node_id, host, pid, part, part_count, held, started_at, seen_at,
    suspended_at, extract(epoch from clock_timestamp() - seen_at)::double precision as silent_s,
    identity, shardclock.hold_reason(identity) as hold_reason, shardclock.foreign_reason(identity) as foreign_reason
from shardclock.presence
where :role::text is null or role = :role
order by part nulls last, started_at
