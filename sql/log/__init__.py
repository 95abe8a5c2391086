"""The command log: read so that no record is skipped and none is read twice, alone or as a consumer group.

records     read the log by position
ends        find the records that ended timers
groups      consumer groups: their places, their lag, the records they have set aside
consuming   work in the transaction that moves the group's place: exactly once, in Postgres
leasing     work outside Postgres: lease a batch, do the work, acknowledge
member      what both kinds of consumer share: turns, retries, waiting
pace        how many records a batch has, so that its work takes about a second
hints       notices that the log has new records
partitions  the days of the log: made ahead, dropped when nobody needs them
"""
