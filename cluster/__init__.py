"""Compose a cluster: start its processes in order, restart dead processes, and stop all in the opposite order.

**Start.** The settings are read from the environment once and checked together; wrong settings end the start, with one
line for each fault. Postgres comes next: the database that the settings name, or an embedded database with its data in
a directory (`embedded.server`). `up` migrates an embedded database, and checks the schema version of a named database.
The local keepers come third: a coordinator in a host process, and the keepers, which a fork server starts (shards,
workers if timers can have targets, engines if a model is deployed). The local keepers serve before Ray is ready. Ray
comes last: our own Ray, or the Ray cluster that the settings name. With a named Ray cluster there are no local keepers.
Our own Ray has a separate address and temporary directory, so that it never joins another Ray on this machine. Ray's
coordinator is a detached actor that starts keepers as actors. When these keepers have registered, Ray's cluster gets
the lead, and the local coordinator stands by. An exporter and a gateway serve the metrics and the HTTP API. After a
failed start, the started processes are stopped.

**Stop**, on SIGINT or SIGTERM, ends the local coordinator first, which would otherwise take the lead, then Ray's
coordinator. Each keeper releases its claims (`drain()`), so that other keepers can claim without a wait for the end of
the lease. Next, `up` kills the keepers' actors, the coordinator, and its own Ray. At last `up` releases Postgres; the
embedded Postgres stops when its last user has released it.

**Kill.** `kill -9` is safe, but slower: leases expire, the kernel releases the file locks, and Postgres recovers from
its log.

    settings     all settings, read once and checked together
    database     the database that the settings name, or the embedded database
    running      a running cluster: start, restart and stop its parts
    kept_host    restart a dead host process
    hosts, host_process, host_events   the start of a host process, and the messages between this process and `up`
    ray_cluster, host, node  our own Ray or a named Ray cluster, its host process, the environment of its nodes
    actors       the actors of all roles, as Ray runs them
    local_host, local_cluster, local_order   the host without Ray, the coordinator in it, and its order
    local_keepers, preloaded   the keepers as local processes, and the modules that they share
    without_rich             structlog without rich, for processes that must start quickly
    gateway, exporter        the processes of the HTTP API and of the metrics
    end_of_input             notice the end of the parent process
    restarts, failed         the time of a restart, and the error of a cluster that can't run
    drain                    move keepers off a node before it stops
    families                 all metrics
    logs, scratch            log lines, and temporary directories
    testing      a cluster for tests, with a clock that the tests move

This package may import every package except `cli` and `demo`. Only `cli`, `demo`, tests and benchmarks import this
package.
"""
