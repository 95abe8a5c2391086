-- Reads the steps of an instance, in order.
--
-- in:    :instance_key bigint, :after bigint (the last version of the previous page, or 0), :page_size integer
-- out:   version bigint, stepped_at timestamptz, signals jsonb, passes jsonb
-- locks: nothing
-- index: instance_steps_pkey
select s.version, s.stepped_at, s.signals, s.passes
from shardclock.instance_steps s
where s.instance_key = :instance_key::bigint and s.version > :after::bigint
order by s.version
limit :page_size::integer
