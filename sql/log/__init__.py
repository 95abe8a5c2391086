"""The server's statements on the command log. (The client package `shardclock.log` has the consumers.)

records     the records of given tenants, and all records as they are written
ends        find the records that ended timers
groups      consumer groups: their lag, their records set aside, and changes by operators
notifications       notifications of new records
partitions  the daily partitions: create them ahead of time, drop them when no group needs them
"""
