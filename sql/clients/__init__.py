"""What clients do: schedule timers, change those that are pending, and find timers, past and present.

outcomes  what becomes of a timer that is scheduled
pending   schedule: what a client does first
verbs     cancel, move, pause, resume, run now: what a client does later
history   find timers, and read their records
"""
