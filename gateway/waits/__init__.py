"""Long polling over HTTP.

wait           one caller's wait, and the set of all waits of one kind
event_stream   server-sent events, sent while the caller holds a slot
deferred       deferred responses, which keep the caller's slot in memory, but not the request
changes        waits for the next record of the log, for the console
timer_ends     waits for the end of a timer
instance_ends  waits for the end of an instance
task_waiters   waits for service tasks: the longest-waiting caller first
long_polls     waits for a page of the log, a lease, or the end of a run
"""
