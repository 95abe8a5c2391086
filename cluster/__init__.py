"""Run a cluster: start its processes in order, restart dead processes, and stop all processes at the end.

**Start.** The settings are read from the environment once and checked together; if settings are invalid, the start ends
with one line for each fault. Next, Postgres starts: the database that the settings name, or an embedded database with
its data in a directory (`embedded.server`). `up` migrates an embedded database, and checks the schema version of a
named database. Third, the local keepers start: a coordinator in a host process, and the keepers, which a fork server
starts. Keepers are shards, workers (if timers can have targets) and engines (if a model is deployed). The local keepers
fire timers before Ray is ready. Ray starts last: our own Ray, or the Ray cluster that the settings name. With a named
Ray cluster there are no local keepers. Our own Ray has a separate address and temporary directory, so that it never
joins another Ray on this machine. In Ray, the coordinator is a detached actor that starts keepers as actors. When these
actors have registered, the coordinator in Ray becomes the leader, and the local coordinator stands by. An exporter and
a gateway serve the metrics and the HTTP API. After a failed start, the started processes are stopped.

**Stop.** SIGINT or SIGTERM ends the local coordinator first, because it would otherwise become the leader. Then the
coordinator in Ray ends. Each keeper releases its claims (`drain()`), so that other keepers can claim the rows before
the leases expire. Next, `up` kills the keepers' actors, the coordinator, and its own Ray. Last, `up` releases Postgres;
an embedded Postgres stops when the last process that uses it has released it.

**Kill.** `kill -9` is safe. The restart is slower than after a stop: leases must expire, and Postgres recovers from its
log. The kernel releases the file locks.

    settings:     all settings, read once and checked together
    database:     the database that the settings name, or the embedded database
    running:      a running cluster: start, restart and stop its processes
    kept_host:    restart a dead host process
    hosts:        the start of a host process
    host_process and host_events:  the interface of `up` to a host process; `host_events` has the messages between `up`
                                   and the host
    ray_cluster and host:  our own Ray or a named Ray cluster, and its host process
    node:         the environment of Ray's nodes
    actors:       the actors of all roles, as Ray runs them
    local_host and local_cluster:  the host process without Ray, and the coordinator that runs in this process
    local_order:  the configuration that `up` sends to the host without Ray
    local_keepers and preloaded:  the keepers as local processes, and the modules that these processes share
    without_rich:             structlog without rich, for processes that must start quickly
    gateway and exporter:     the processes of the HTTP API and of the metrics
    end_of_input:             notice the end of the parent process
    restarts and failed:      decide when to restart a process; the error of a cluster that can't run
    drain:                    move keepers off a node before it stops
    families:                 all metrics
    logs and scratch:         log lines, and temporary directories
    testing:      a cluster for tests, with a clock that the tests move

This package may import every package except `cli` and `demo`. Only `cli`, `demo`, tests and benchmarks import this
package.
"""
