-- Empties the slot (partition) of the day before yesterday, if its newest row is older than 36 hours. A stored response
-- is valid for 24 hours. The other 12 hours allow for a wrong clock, and for transactions that read the slot at
-- midnight. The caller must call this function in the second half of each day, because the rows are then old enough.
--
-- in:    nothing
-- out:   integer: the number of emptied slots: 1 or 0
-- locks: that slot, exclusively, until the transaction ends; fails (55P03) immediately if another transaction has
--        locked the slot
-- index: the slot's part of idempotent_requests_by_age, one probe
create or replace function shardclock.forget_requests()
returns integer
language plpgsql
-- The function runs as its owner, so the role of gateways needs no right to truncate tables.
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    partition_name constant text := 'idempotent_requests_' || (shardclock.request_slot(now()) + 1) % 3;
    ask constant text := format('select max(r.created_at) from shardclock.%I r', partition_name);
    newest timestamptz;
begin
    execute ask into newest;
    if newest is null or newest > now() - interval '36 hours' then
        return 0;
    end if;
    -- Never wait for a lock, because a dump may lock the slot for hours; a later call tries again.
    execute format('lock table shardclock.%I in access exclusive mode nowait', partition_name);
    -- Check again, because a transaction may have written to the slot since the first check, if the clock was set back.
    execute ask into newest;
    if newest > now() - interval '36 hours' then
        return 0;
    end if;
    execute format('truncate shardclock.%I', partition_name);
    return 1;
end
$$;
