-- Cancels all timers of a process instance.
--
-- in:    $1 process_instance_key bigint, $2 reason text or null
-- out:   canceled bigint, how many
-- locks: the timers' rows
-- index: timers_by_process_instance
select shardclock.cancel_process_instance($1, $2) as canceled
