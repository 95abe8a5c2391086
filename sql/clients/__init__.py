"""Clients' verbs: schedule timers, change pending timers, and find timers, pending and ended.

scheduling  schedule timers
writing     one attempt to write them
planned     a timer with its key and its first occurrence
replay      timers of requests that already have an answer
refusals    the sentences of refusals
outcomes    the outcome of scheduling each timer
verbs       cancel, move, pause, resume, run now
search      find timers by a filter, page by page
log_search  find records of the log by a filter, page by page
refused     find timers that a shard has paused
firings     the last firings of schedules
history     one timer, and the records of timers
"""
