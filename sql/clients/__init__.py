"""What clients do: schedule timers, change those that are pending, and find timers, past and present.

scheduling  schedule timers: what a client does first
writing     one attempt to write them
planned     each with its key and its first occurrence
replay      those whose requests were answered before
refusals    what is said of those that were not written
outcomes    what becomes of each
verbs       cancel, move, pause, resume, run now: what a client does later
history     find timers, and read their records
"""
