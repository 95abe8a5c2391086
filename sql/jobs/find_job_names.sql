-- Finds the names of jobs, in order.
--
-- in:    :contains text or null: only names with this text, :after text or null: only names after this one,
--        :limit bigint
-- out:   name text
-- locks: nothing
-- index: jobs_pkey, in its order up to the limit of the matching jobs
select j.name
from shardclock.jobs j
where (:contains::text is null or position(:contains in j.name) > 0)
    and (:after::text is null or j.name > :after)
order by j.name
limit :limit
