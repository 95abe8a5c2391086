"""What assigns the slots: one coordinator decides which shard actor keeps which part of them.

The coordinator is a reconcile loop in the manner of a Kubernetes controller. Each turn reads the desired and the actual
state (`fleet` knows Ray's actors and nodes, the holders table knows the shards), lets a pure function decide (`plan`),
and acts on the difference (`supervisor` starts, watches and ends the shard actors). The coordinator keeps nothing in
memory that it could not read again: it may be killed at any moment, and its next incarnation carries on.

No timer depends on the coordinator. It makes takeover quick (about 0.2 s instead of the lease's 10 s) and scaling
smooth, and it moves shards off a node that drains. It can't know whether a silent shard is dead (`failure_detector`).
So it suspends a shard early, which costs nothing if the shard lives, and kills it late. `quarantine` and `backoff`
keep it from starting actors again and again where they fail.

Two clusters on one database have two coordinators, and one of them leads: the leader's lease and term are a row in
Postgres (`sql.cluster.leadership`). The other stands by: its shard actors run without slots, so that it can take over
the lead without making a timer late.

The number of shards is set by an operator, or follows the forecast within bounds (`scaling`, `demand`). The leader also
makes and drops the days of the command log (`retention`).

`reconciler` holds the loop and one turn of it, `actor` is the Ray actor around them, `stats` counts what was done.
"""
