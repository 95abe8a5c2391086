-- Returns the state of a timer's delivery, and locks a waiting delivery so that no worker claims it.
--
-- The function does not lock a claimed delivery, because its worker must be able to renew and settle it. If a worker
-- ends the delivery during the wait for the lock, the function returns the outcome.
--
-- in:    timer_key bigint
-- out:   text: WAITING, IN_HAND, DEAD, DELIVERED, DISCARDED or UNKNOWN
-- locks: the delivery, if it waits, until the transaction ends; waits for another transaction that has locked it
-- index: deliveries_pkey, dead_letters_pkey, command_log_by_timer_key
create or replace function shardclock.lock_delivery(timer_key bigint)
returns text
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
declare
    is_in_hand boolean;
    ended_as text;
begin
    loop
        select d.claimed_until > clock_timestamp() into is_in_hand
        from shardclock.deliveries d
        where d.timer_key = lock_delivery.timer_key;
        if is_in_hand then
            return 'IN_HAND';
        end if;
        begin
            select d.claimed_until > clock_timestamp() into is_in_hand
            from shardclock.deliveries d
            where d.timer_key = lock_delivery.timer_key
            for update;
            if is_in_hand then
                -- A worker claimed the delivery during the wait: the exception releases the lock.
                raise exception using errcode = 'SC001';
            end if;
            if found then
                return 'WAITING';
            end if;
        exception when sqlstate 'SC001' then
            return 'IN_HAND';
        end;
        select coalesce(
            (select 'DEAD' from shardclock.dead_letters d where d.timer_key = lock_delivery.timer_key),
            (
                select l.intent
                from shardclock.command_log l
                where l.timer_key = lock_delivery.timer_key and l.intent in ('DELIVERED', 'DISCARDED')
                -- `+ 0` prevents a scan of the index on position.
                order by l.position + 0 desc
                limit 1
            ),
            'UNKNOWN'
        )
        into ended_as;
        -- An operator may have redriven the dead letter between the two reads.
        if ended_as <> 'UNKNOWN'
            or not exists (select from shardclock.deliveries d where d.timer_key = lock_delivery.timer_key)
        then
            return ended_as;
        end if;
    end loop;
end
$$;

comment on function shardclock.lock_delivery is
    'Internal: Returns the state of a timer''s delivery: WAITING (and locks it), IN_HAND, or its outcome.';
