"""Assign slots: one coordinator decides which keepers run, and which range of slots each keeper has.

The coordinator is a reconcile loop in the manner of a Kubernetes controller (`reconciler`). Each turn takes or renews
the lead, reads the holders (`holders_seen`), and then handles one role after the other (`crew`). For each role the crew
compares the desired with the actual state: a `fleet` lists the processes and the nodes, and the holders table lists the
keepers. The crew ends the holders that are lost (`takeover`), lets a pure function decide (`plan`), and acts on the
difference (`keeper_processes` starts, watches and ends the keepers). All state of the coordinator is in Postgres and
the fleet, so a restarted coordinator continues after a kill.

No timer depends on the coordinator. The coordinator makes takeover quick (about 0.2 s instead of the lease's 10 s) and
scaling smooth, and moves keepers off a node that drains. It can't know whether a silent keeper is dead
(`failure_detector`). So the coordinator suspends a keeper early, because a suspension does no harm to a living keeper,
and kills a keeper late. `quarantine` and `backoff` prevent repeated starts of actors on nodes where starts fail.
`placement` chooses the nodes for the keepers of a role.

Of the coordinators of two clusters on one database, one leads: the leader's lease and term are a row in Postgres
(`sql.cluster.leadership`). The other coordinator stands by: its keepers run without slots, ready for the lead, so that
a change of the leader makes no timer late. `up` runs local keepers beside its own Ray, as a second cluster that stands
by (`stand_by`). This local cluster has keepers while it leads; `up` informs it when Ray is lost. `lead_lapses` measures
whether Ray's cluster renews the lead. A cluster that stops serves until another cluster has its slots (`succession`).

An operator sets the number of keepers of each role, or bounds within which the number of shards follows the forecast
(`scaling`, `demand`). The leader also creates and drops the daily partitions of the command log (`retention`), and
sends the events for operators (`operator_events`).

`fleet` is the port to the keepers' processes: `ray_fleet` runs keepers as Ray's actors, `local_fleet` as processes of
this machine. Only `ray_fleet` and `actor` import Ray. `actor` is the Ray actor around the loop. `stats` counts the
coordinator's actions; `families` has the metrics. `settings` has the numbers.
"""
