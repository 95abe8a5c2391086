"""Waits over HTTP.

wait           one caller's wait, and the register of all waits of one kind
later          while a caller waits, no more of its request is kept than the answer needs
timer_ends     until a timer has ended
instance_ends  until an instance has ended
task_lines     for service tasks, one caller after the other
long_polls     for a page of the log, a lease, or the end of a run
"""
