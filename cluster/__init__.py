"""The composition root: start all parts in one order, restart dead parts, and stop in the opposite order.

**Start.** The settings are read from the environment once and checked together; wrong settings end the start, with one
line for each fault. Postgres comes next: the database that the settings name, or an embedded database with its data in
a directory (`embedded.server`). An embedded database is migrated; of a named database the schema version is checked.
The local keepers come third: a coordinator in a host process, and the keepers, which a fork server starts (shards,
workers if timers can have targets, engines if a model is deployed). The local keepers serve before Ray is ready. Ray
comes last: our own Ray, or the Ray cluster that the settings name. With a named Ray cluster there are no local keepers.
Our own Ray has a separate address and temporary directory, so that it never joins another Ray on this machine. Ray's
coordinator is a detached actor that starts keepers as actors. When these keepers have registered, Ray's cluster gets
the lead, and the local coordinator stands by. An exporter and a gateway serve the metrics and the HTTP API. After a
failed start every part that was started can be stopped again.

**Stop**, on SIGINT or SIGTERM, ends the local coordinator first, which would otherwise take the lead, then Ray's
coordinator. Each keeper releases its claims (`drain()`), so that other keepers can claim immediately instead of waiting
for the end of the lease. Then the keepers' actors are killed, then the coordinator, then Ray if we started it. At last
we release Postgres. The embedded Postgres stops when its last user releases it.

**Kill.** Timers are safe without an orderly stop. After `kill -9` the state repairs itself: leases run out, the
kernel releases the file locks, Postgres recovers from its log. An orderly stop is only quicker.

    settings     all settings, read once and checked together
    database     the database that the settings name, or the embedded database
    running      a running cluster: start, restart and stop its parts
    kept_host    one host process that is started again when it has died
    hosts, host_process, host_events   the start of a host process, and the messages between this process and `up`
    ray_cluster, host, node  our own Ray or a named Ray cluster, its host process, the environment of its nodes
    actors       the actors of all roles, as Ray runs them
    local_host, local_cluster, local_order   the host without Ray, the coordinator in it, and its order
    local_keepers, preloaded   the keepers as local processes, and the modules that they share
    without_rich             structlog without rich, for processes that must start quickly
    gateway, exporter        the processes of the HTTP API and of the metrics
    end_of_input             how a process learns that its parent has ended
    restarts, failed         when a dead process is started again, and why a cluster can't run
    drain        a node that is about to leave
    families     all metrics, brought together
    logs, scratch            log lines, and directories that are removed after us
    testing      a cluster for tests, with a clock that the tests move

This is the composition root: it may import every package but `cli` and `demo`; only those two, tests and benchmarks
import it.
"""
