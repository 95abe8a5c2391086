"""Assign slots: a coordinator decides which keepers run, and which part of the slots each keeper gets.

The coordinator is a reconcile loop in the manner of a Kubernetes controller (`reconciler`). Each iteration acquires or
renews the leader's lease, reads the holders (`holders_seen`), and then handles each role: shards, workers and engines.
A `crew` handles one role: it reads the role's processes and nodes from the `fleet`, and the role's keepers from the
holders table. A crew ends lost holders (`lost_holders`). A pure function (`takeover_plan`) decides which keepers get
the slots of a silent keeper, and which keepers start or retire. The crew executes the steps (`keeper_processes` starts,
watches and ends the keepers). All state of the coordinator is in Postgres and in the fleet, so after a kill a new
coordinator can continue.

No timer depends on the coordinator. With a coordinator, other keepers take over from a dead keeper after about 0.2 s;
without a coordinator, they take over when the lease of 10 s ends. The coordinator also scales the roles, and moves
keepers away from a draining node. `heartbeat_monitor` measures for how long each keeper has been silent. The
coordinator can't know whether a silent keeper is dead. So it suspends the keeper soon, because a suspension does no
harm if the keeper is alive, and kills the keeper only after a longer silence. `quarantine` and `backoff` prevent
repeated starts of actors on nodes where starts fail. `placement` chooses the nodes for the keepers of a role.

If two clusters share a database, only one coordinator leads. The leader's lease and term are a row in Postgres
(`sql.cluster.leadership`). The other coordinator stands by: its keepers run without slots, so that no timer is late
when the leader changes. `shardclock up` with Ray also runs a local stand-by cluster (`stand_by`), which has keepers
only while it leads. `up` informs this local cluster when Ray is lost. `lead_lapses` counts how often Ray's cluster got
the lead and lost it. A stopping cluster continues to fire timers until another cluster has taken over its slots
(`succession`).

An operator sets the number of keepers of each role, or bounds within which the number of shards follows the forecast
(`scaling`, `demand`). The leader also creates and drops the daily partitions of the command log (`retention`), and
sends operator events (`operator_events`).

`fleet` is the interface to the keepers' processes: `ray_fleet` runs keepers as Ray actors, `local_fleet` as processes
of this machine. Only `ray_fleet` and `actor` import Ray. `actor` is the Ray actor that runs the loop. `stats` counts
the coordinator's actions; `families` declares the metrics. `settings` has the settings.
"""
