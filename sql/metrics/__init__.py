"""Measurements from Postgres: the current load, the future load, and the processes of the cluster.

measures   the exporter's figures about timers, the cluster and the server
deliveries the exporter's figures about deliveries and dead letters
jobs       the exporter's figures about jobs
coming     the timers of the next half an hour, by minute and target, for the console
past       the firings, deliveries and dead letters of the last minutes, for the console
forecast   the load of the next quarter of an hour
status     the cluster's state, as `shardclock status` shows it, and Postgres's clock
"""
