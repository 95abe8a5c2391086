"""The operations of clients: schedule timers, change pending timers, and find pending and ended timers.

scheduling  schedule timers
writing     one attempt to write timers
planned     a timer with its key and its first occurrence
replay      timers of requests that already have a stored response
refusals    the messages of refusals
outcomes    the outcome of scheduling each timer
verbs       cancel, move, pause, resume, run now
search      find timers by a filter, page by page
log_search  find records of the log by a filter, page by page
refused     find timers that a shard has paused
firings     the last firings of schedules
history     one timer, and the records of timers
"""
