-- Moves the sequence of keys beyond every used key, if it was set back behind one.
--
-- in:    nothing
-- out:   advanced boolean
-- locks: an advisory lock, until the transaction ends; does not wait for it
-- index: timers_pkey and command_log_by_timer_key, each partition's end
select shardclock.advance_keys() as advanced
