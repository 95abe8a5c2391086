"""The server's own statements on the command log; `shardclock.log` has the consumers, and the reads in order.

records     the records of given tenants, and all records as they are written
ends        find the records that ended timers
groups      consumer groups: their lag, the records set aside, and operators' changes
notifications       notifications of new records
partitions  the daily partitions: made ahead of time, dropped when no group needs them
"""
