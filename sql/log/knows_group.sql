-- Asks whether a consumer group exists.
--
-- in:    :group_name text
-- out:   known boolean
-- locks: nothing
-- index: consumers_pkey
select exists (select from shardclock.consumers c where c.group_name = :group_name) as known
