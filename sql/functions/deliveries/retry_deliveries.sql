-- A service task that a program has leased is not due until its lease is over. Made due, a handler would get it.
--
-- in:    timer_keys bigint[]
-- out:   setof bigint
-- locks: the deliveries; leaves out those that others have locked
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
                -- Who waited for rows that workers settle in an order of their own could end in a deadlock.
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

comment on function shardclock.retry_deliveries is $$Makes the next attempts of many deliveries due now. Their failed
attempts stay counted. Those that a worker or a program has in hand are left as they are.

timer_keys: the timers that fired
returns: the keys of those that are due now, and were not before
errors: 42501 without a right on shardclock.deliveries
example: select shardclock.retry_deliveries(array(select timer_key from shardclock.deliveries where target = 'order.expired' and failed_attempts > 0));
$$;
