"""What assigns the slots: one coordinator decides which keepers there are, and which part of the slots each one keeps.

The coordinator is a reconcile loop in the manner of a Kubernetes controller (`reconciler`). Each turn takes or renews
the lead, and then handles one role after the other (`crew`): it reads the desired and the actual state (a `fleet` knows
the processes and the nodes, the holders table knows the keepers), ends the holders that are lost (`takeover`), lets a
pure function decide (`plan`), and acts on the difference (`supervisor` starts, watches and ends the keepers). The
coordinator keeps nothing in memory that it could not read again: it may be killed at any moment, and its next
incarnation carries on.

No timer depends on the coordinator. It makes takeover quick (about 0.2 s instead of the lease's 10 s) and scaling
smooth, and it moves keepers off a node that drains. It can't know whether a silent keeper is dead
(`failure_detector`). So it suspends a keeper early, which costs nothing if the keeper lives, and kills it late.
`quarantine` and `backoff` keep it from starting actors again and again where they fail. `placement` says which nodes
are for the keepers of a role.

Two clusters on one database have two coordinators, and one of them leads: the leader's lease and term are a row in
Postgres (`sql.cluster.leadership`). The other stands by: its keepers run without slots, so that it can take over the
lead without making a timer late.

How many keepers a role has is set by an operator. The number of shards may also follow the forecast within bounds
(`scaling`, `demand`). The leader also makes and drops the days of the command log (`retention`).

`fleet` is the port to the keepers' processes: `ray_fleet` runs them as Ray's actors, `local_fleet` as processes of this
machine. Only `ray_fleet` and `actor` import Ray. `actor` is the Ray actor around the loop, `stats` counts what was
done, as `families` names it. `settings` has the numbers.
"""
