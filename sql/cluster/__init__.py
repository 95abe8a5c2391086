"""The registered keepers (the processes of shards, workers and engines), the leading coordinator, and the installation
that owns the database.

holders     the registered keepers: register a keeper, record heartbeats, assign slots, end a keeper
leadership  the leading coordinator, the wanted numbers of keepers, and the rate at which timers fire after an outage
identity    which installation owns this database, and whether it is a copy
rights      the rights that a role needs to run a cluster
server      the state of the Postgres server
"""
