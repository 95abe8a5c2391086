-- Moves the sequence of keys forward, if a restore, a failover or an operator has set it back, so that new timers get
-- unused keys. The function runs as its owner, so a role that schedules timers needs no right to set the sequence.
--
-- in:    nothing
-- out:   boolean: whether this call moved the sequence
-- locks: an advisory lock, until the transaction ends; does not wait for it
-- index: the ends of timers_pkey, command_log_by_timer_key, deliveries_pkey and dead_letters_pkey
create or replace function shardclock.advance_keys()
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    -- Ignore keys above this limit, which is far above all drawn keys. Without the limit, a row with the largest bigint
    -- as its key would exhaust the sequence.
    far constant bigint := 4611686018427387904;
    -- This margin is larger than the number of keys that other sessions can draw after the read, so setval never moves
    -- the sequence back.
    gap constant bigint := 1000000;
    highest bigint;
begin
    -- Only one call at a time moves the sequence. Don't wait for the lock: the call with the lock moves the sequence.
    if not pg_try_advisory_xact_lock(hashtextextended('shardclock.advance_keys', 0)) then
        return false;
    end if;
    highest := greatest(
        (select max(t.timer_key) from shardclock.timers t where t.timer_key < far),
        (select max(l.timer_key) from shardclock.command_log l where l.timer_key < far),
        -- Also read deliveries and dead letters, which may be older than the log.
        (select max(d.timer_key) from shardclock.deliveries d where d.timer_key < far),
        (select max(d.timer_key) from shardclock.dead_letters d where d.timer_key < far)
    );
    perform setval('shardclock.timer_key_seq', highest + gap)
    from shardclock.timer_key_seq s
    where s.last_value < highest;
    return found;
end
$$;

comment on function shardclock.advance_keys is
    'Internal: Moves the sequence of keys beyond the highest used key; returns whether this call moved the sequence.';
