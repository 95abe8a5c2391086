-- Registers a consumer group at the beginning of the log, if it is new.
--
-- in:    $1 group_name text
-- out:   nothing
-- locks: the new row
-- index: consumers_pkey
insert into shardclock.consumers (group_name)
values ($1)
on conflict do nothing
