-- Cancels an instance whose start was given up.
--
-- in:    :instance_key bigint, :signal_key bigint (of the cancellation: it says who sent it)
-- out:   cancelled boolean; false: no such start was given up, or somebody has redriven or discarded it
-- locks: its dead letter, until the end
-- index: dead_letters_pkey, deliveries_pkey
select shardclock.cancel_start(:instance_key::bigint, :signal_key::bigint) as cancelled
