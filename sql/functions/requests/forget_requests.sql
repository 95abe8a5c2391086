-- Empties the slot that is neither today's nor yesterday's. Its rows are of the day before yesterday, so all of them
-- are older than 24 hours. It waits until they are older than 36 hours: the half day is for a clock that was wrong, and
-- for transactions that still read that slot at midnight. The other half of the day is left for it to be called.
--
-- in:    nothing
-- out:   integer: how many slots: 1 or 0
-- locks: that slot, exclusively, until the transaction ends; gives up (55P03) at once while another transaction holds a
--        lock on it
-- index: the slot's part of idempotent_requests_by_age, one probe
create or replace function shardclock.forget_requests()
returns integer
language plpgsql
-- It runs as its owner: the role of gateways may empty this slot, and truncate nothing else.
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
    -- This waits for no lock. A dump may keep the slot locked for hours: so try now, or later again.
    execute format('lock table shardclock.%I in access exclusive mode nowait', partition_name);
    -- If the clock was set, a transaction that began before may have written to the slot since.
    execute ask into newest;
    if newest > now() - interval '36 hours' then
        return 0;
    end if;
    execute format('truncate shardclock.%I', partition_name);
    return 1;
end
$$;
