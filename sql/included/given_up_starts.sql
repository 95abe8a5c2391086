-- A page of the given-up starts `start` of the tenant `t`, newest first, each with its version `d` of the process.
from shardclock.dead_letters start
-- include: included/definition_of_start.sql
where (start.target = 'process:instance' and start.process_instance_key is null) is true
    and start.tenant_id = coalesce(:tenant_id, t.tenant_id)
    and start.timer_key + 0 < coalesce(:before, 9223372036854775807)
    and (:process_id is null or d.process_id = :process_id)
order by start.timer_key + 0 desc
limit :page_size
