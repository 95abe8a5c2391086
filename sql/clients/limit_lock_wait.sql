-- Limits each later wait for a lock in this transaction.
--
-- in:    :wait text: a length with its unit, such as 50ms
-- out:   set_config text: the same length
-- locks: nothing
-- index: none
select set_config('lock_timeout', :wait, true)
