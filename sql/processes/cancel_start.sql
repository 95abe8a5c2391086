-- Cancels an instance whose start was given up.
--
-- in:    :instance_key bigint
-- out:   cancelled boolean; false: no such start was given up, or somebody has redriven or discarded it
-- locks: its dead letter, until the end
-- index: dead_letters_pkey
select shardclock.cancel_start(:instance_key::bigint) as cancelled
