"""Which holders there are, which coordinator leads, and which installation this database belongs to.

holders     the incarnations of shard actors: register, beat, assign, end
leadership  which coordinator leads, how many shards are wanted, how fast timers left by an outage are fired
identity    which installation owns this database, and whether it is a copy
rights      what a role needs to run a cluster
"""
