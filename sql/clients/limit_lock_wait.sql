-- Limits each later wait for a lock in this transaction.
--
-- in: :wait text: a duration with a unit, such as 50ms
-- out: set_config text: the same duration
-- locks: nothing
-- index: none
select set_config('lock_timeout', :wait, true)
