-- Measures the time since the last heartbeat of the processes that start jobs (a shard and a worker).
--
-- in:    :now timestamptz or null
-- out: tick_s double precision or null (no shard or no worker has slots)
-- locks: nothing
-- index: none, there are few holders
select case when count(*) = 2 then max(k.silent_s) end as tick_s
from (
    select
        p.role,
        greatest(extract(epoch from coalesce(:now::timestamptz, now()) - max(p.seen_at)), 0)::double precision as silent_s
    from shardclock.presence p
    where p.part is not null
    group by p.role
) k
