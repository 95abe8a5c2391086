-- Makes the next attempts of many deliveries due now.
--
-- The function skips a service task that a program has claimed. Otherwise a handler would get the task during the
-- program's lease.
--
-- in:    timer_keys bigint[]
-- out:   setof bigint
-- locks: the deliveries; skips locked rows
-- index: deliveries_pkey
create or replace function shardclock.retry_deliveries(timer_keys bigint[])
returns setof bigint
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
    update shardclock.deliveries d
    set next_attempt_at = now()
    where d.timer_key = any (
            array(
                -- Skip locked rows: workers lock rows in another order, so a wait for a lock could cause a deadlock.
                select w.timer_key
                from shardclock.deliveries w
                where w.timer_key = any (retry_deliveries.timer_keys)
                    and w.next_attempt_at > now()
                    and (w.claimed_until is null or w.claimed_until <= clock_timestamp())
                for update skip locked
            )
        )
    returning d.timer_key;
end
$$;

comment on function shardclock.retry_deliveries is $$Makes the next attempts of many deliveries due now. The numbers of failed attempts don't change. A delivery that a worker or a program has claimed stays unchanged.

timer_keys: the timers that fired
returns: the keys of the deliveries that this call made due
errors: 42501 without a right on shardclock.deliveries
example: select shardclock.retry_deliveries(array(select timer_key from shardclock.deliveries where target = 'order.expired' and failed_attempts > 0));
$$;
