"""The server's statements on the command log. (The client package `shardclock.log` has the consumers.)

records the records of given tenants, and a stream of all new records
ends        find the records that ended timers
groups consumer groups: their lag, the records set aside for them, and changes by operators
notifications       notifications of new records
partitions  the daily partitions: create them ahead of time, drop them when no group needs them
"""
