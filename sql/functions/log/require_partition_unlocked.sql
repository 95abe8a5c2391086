-- Fails immediately (55P03) if another transaction, such as a dump or a long report, has locked a partition.
--
-- Without this check the caller would wait for its lock on the whole log, and all writers of the log would wait behind
-- the caller.
--
-- in:    partition_name text
-- out:   nothing
-- locks: the partition, exclusively; the lock is released again
-- index: none
create or replace function shardclock.require_partition_unlocked(partition_name text)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    execute format('lock table shardclock.%I in access exclusive mode nowait', partition_name);
    -- At this point the call has the lock. The exception releases the lock again, because the caller must lock the log
    -- before the partition.
    raise exception using errcode = 'SC001';
exception when sqlstate 'SC001' then
    return;
end
$$;
