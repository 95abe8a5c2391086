-- Ends a delivery that nobody has in hand.
--
-- in:    :timer_key bigint, :reason text or null
-- out:   state text: DISCARDED, IN_HAND, DEAD, DELIVERED or UNKNOWN
-- locks: the delivery, until the transaction ends; waits for who has it locked
-- index: deliveries_pkey, dead_letters_pkey, command_log_by_timer_key
select shardclock.cancel_delivery(:timer_key::bigint, :reason::text) as state
