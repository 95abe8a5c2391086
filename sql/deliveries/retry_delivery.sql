-- Makes the next attempt of a delivery due now.
--
-- in:    :timer_key bigint
-- out:   state text: DUE, IN_HAND, DEAD, DELIVERED, DISCARDED or UNKNOWN
-- locks: the delivery, until the transaction ends; waits for who has it locked
-- index: deliveries_pkey, dead_letters_pkey, command_log_by_timer_key
select shardclock.retry_delivery(:timer_key::bigint) as state
