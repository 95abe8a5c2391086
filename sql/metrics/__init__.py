"""What is measured in Postgres: load now, load to come, and which processes serve it.

measures   what the exporter reads of timers, of the cluster and of the server
deliveries what it reads of deliveries and dead letters
jobs       what it reads of jobs
forecast   the load of the next quarter of an hour
status     the cluster's state, as `shardclock status` shows it, and Postgres's clock
"""
