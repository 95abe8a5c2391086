"""A shard's statements on `timers`: claim due rows, plan or fire them, and read which rows the shard still leases.

claim        fire overdue timers and lease those due soon, in one scan; ask which timers are leased
fire         fire leased timers, plan schedules that have no date yet, pause timers that can't be fired
pauses       end the pauses whose end has come
handed       the capacity that workers grant to a shard, and the deliveries that are handed over to these workers
rows         the statements' results: leased timers, and lag histograms
notifications        how a gateway notifies shards of timers that are due immediately
scan_window choose the slots that a scan reads from their oldest row, past rows that have fired
"""
