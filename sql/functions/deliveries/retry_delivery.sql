-- Makes the next attempt of one delivery due now.
--
-- in:    timer_key bigint
-- out:   text
-- locks: the delivery, until the transaction ends; waits for another transaction that has locked it
-- index: deliveries_pkey, dead_letters_pkey, command_log_by_timer_key
create or replace function shardclock.retry_delivery(timer_key bigint)
returns text
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
declare
    state text := shardclock.lock_delivery(retry_delivery.timer_key);
begin
    if state <> 'WAITING' then
        return state;
    end if;
    update shardclock.deliveries d
    set next_attempt_at = now()
    where d.timer_key = retry_delivery.timer_key and d.next_attempt_at > now();
    return 'DUE';
end
$$;

comment on function shardclock.retry_delivery is $$Makes the next attempt of a delivery due now. The number of failed attempts does not change. A delivery that a worker or a program has claimed stays unchanged.

timer_key: the timer that fired
returns: DUE (by this call or earlier); IN_HAND: a worker is calling the target, or a program has claimed the service task; DEAD: the delivery was given up; DELIVERED or DISCARDED: the delivery has ended; UNKNOWN: the timer has no delivery
errors: 42501 without a right on shardclock.deliveries
example: select shardclock.retry_delivery(42);
$$;
