"""A shard's claims of `timers`: claim due rows, and read which rows the shard still leases.

claim        fire overdue timers and lease timers that are due soon, in one scan; read which timers are leased
pauses       resume timers when their pauses end
handed       the capacity that workers grant to a shard, and the deliveries that are handed over to these workers
rows         the statements' results: leased timers, and lag histograms
notifications  how a gateway notifies shards of timers that are due immediately
scan_window choose the slots that a scan reads from their oldest row, including the dead rows of fired timers
"""
