-- Cancels all timers of a process instance.
--
-- in:    :process_instance_key bigint, :reason text or null
-- out:   canceled bigint, how many timers it cancelled
-- locks: the timers' rows
-- index: timers_by_process_instance
select shardclock.cancel_process_instance(:process_instance_key, :reason) as canceled
