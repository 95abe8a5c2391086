"""The composition root: start everything in one order, restart what dies, and stop in the opposite order.

**Start.** The settings are read from the environment once and checked together; wrong settings end the start, with one
line for each fault. Postgres comes next: the database that the settings name, or the embedded one, whose data stay in a
directory (`embedded.server`). The embedded one is migrated; of a named one the schema version is checked. Then comes
Ray: the Ray cluster that the settings name, or one of our own. Our own gets its own address and temporary directory, so
that it never meets another Ray on this machine. The coordinator comes last, a detached actor that starts the keepers:
shards, workers if timers can have targets, and engines if a model is deployed. Without Ray the coordinator runs in the
host, and the keepers are processes of this machine, which a fork server starts. An exporter and a gateway beside them
serve the metrics and the HTTP API. Each step needs only the
steps before it, so after a failure everything that was started can be stopped again.

**Stop**, on SIGINT or SIGTERM, goes the same way backwards. Each keeper hands back what it has claimed (`drain()`), so
that others have it at once instead of waiting for the lease to run out. Then the keepers' actors are killed, then the
coordinator, then Ray if we started it, and then we release Postgres. The embedded Postgres stops when its last user
releases it.

**Kill.** No timer needs an orderly stop to be safe. What `kill -9` leaves behind repairs itself: leases run out, the
kernel releases the file locks, Postgres recovers from its log. An orderly stop is only quicker.

    settings     all settings, read once and checked together
    database     the one that the settings name, or the embedded one
    running      a running cluster: what is started, tended and stopped
    hosts, host_process, host_events   how the host process is started, and how it and `up` hear of each other
    ray_cluster, host, node  Ray: ours or a named one, the process that holds it, what its nodes learn
    actors       the actors of all roles, as Ray runs them
    local_host, local_cluster, local_order   the host without Ray, the coordinator in it, and its order
    local_keepers, preloaded   the keepers as local processes, and the modules that they share
    gateway, exporter        the processes beside it
    end_of_input             how a process learns that who started it has gone
    restarts, failed         when something that died is started again, and why a cluster can't run
    drain        a node that is about to leave
    families     all metrics, brought together
    logs, scratch            log lines, and directories that are removed after us
    testing      a cluster for tests, with a clock that they move

This is the composition root: it may import every package but `cli` and `demo`; only those two, tests and benchmarks
import it.
"""
