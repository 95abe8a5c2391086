"""What a shard does to rows of `timers`: claim those that are due, plan or fire them, and ask which it still leases.

claim        fire overdue timers and lease those due soon, in one scan; ask which timers are leased
fire         fire leased timers, plan schedules that have no date yet, pause timers that can't be fired
rows         what the statements return: leased timers, and lag histograms
hints        how a gateway tells shards that timers are due at once
scan_window  how far back a scan reads past rows that have fired
"""
