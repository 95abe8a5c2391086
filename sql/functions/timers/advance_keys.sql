-- A restored dump, a subscriber that takes over, or an operator may set the sequence of keys back. Then the sequence
-- draws keys that timers have or had. The function runs as its owner, so that a role that schedules needs no right to
-- set the sequence.
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
    -- This limit is far above every drawn key, and far below the last bigint. Rows with higher keys are ignored here:
    -- otherwise one row with the last key would use up the sequence.
    far constant bigint := 4611686018427387904;
    -- Other sessions can't draw this number of keys after this read of the sequence, so setval never moves the sequence
    -- back.
    gap constant bigint := 1000000;
    highest bigint;
begin
    -- Only one call at a time moves the sequence. This call doesn't wait for the lock, because the transaction that
    -- holds it has moved the sequence already.
    if not pg_try_advisory_xact_lock(hashtextextended('shardclock.advance_keys', 0)) then
        return false;
    end if;
    highest := greatest(
        (select max(t.timer_key) from shardclock.timers t where t.timer_key < far),
        (select max(l.timer_key) from shardclock.command_log l where l.timer_key < far),
        -- Deliveries and dead letters may be older than the log.
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
    'Internal: Moves the sequence of keys beyond every key in timers and in the log; '
        'returns whether it was behind one.';
