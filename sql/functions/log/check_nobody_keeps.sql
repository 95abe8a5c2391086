-- Refuses with 55P03, without waiting, while another transaction (a dump, a long report) has locked a partition. To ask
-- for the whole log's lock then would have no result, and all writers would wait behind that request.
--
-- in:    partition_name text
-- out:   nothing
-- locks: the partition, exclusively, and gives it back
-- index: none
create or replace function shardclock.check_nobody_keeps(partition_name text)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    execute format('lock table shardclock.%I in access exclusive mode nowait', partition_name);
    -- We got the lock. This exception releases it again, because the log itself must be locked first.
    raise exception using errcode = 'SC001';
exception when sqlstate 'SC001' then
    return;
end
$$;
