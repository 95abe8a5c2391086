"""The command log, where the server alone needs it; consumers, and all that reads it in order: `shardclock.log`.

records     the records of some tenants, and all as they come
ends        find the records that ended timers
groups      consumer groups: their lag, the records they have set aside, and what an operator does to them
hints       notices that the log has new records
partitions  the days of the log: made ahead, dropped when no group needs them
"""
