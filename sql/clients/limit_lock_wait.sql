-- Limits how long the transaction's statements wait for a lock from now on, until it ends.
--
-- in:    :wait text, with its unit, such as 50ms
-- out:   set_config text, the same
-- locks: nothing
-- index: none
select set_config('lock_timeout', :wait, true)
