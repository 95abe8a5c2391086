"""Who runs what: one coordinator decides which shard actor keeps which part of the slots.

It is a reconcile loop in the manner of a Kubernetes controller. Each turn reads what is wanted and what is there
(`fleet`: the actors and nodes that Ray knows; the holders table), lets a pure function decide (`plan`), and acts on
the difference. It keeps nothing in memory that it could not read again: killed at any moment, its next incarnation
carries on.

No timer depends on it. It makes takeover quick (about 0.2 s instead of the lease's 10 s), scaling smooth, and nodes
empty before they go. Of a shard that is silent it can't know whether it is dead (`silence`): it suspects quickly, which
costs nothing if it was wrong, and kills slowly.

Two clusters on one database have two coordinators, of which one leads: the lease and its term are a row in Postgres
(`sql.leadership`). The other stands by: its shard actors are started and have no slots, so that the lead can be given
to it without a timer being late.

How many shards are wanted is an operator's number, or follows the forecast within bounds (`scaling`, `demand`).

`reconciler` holds the loop and one turn of it, `actor` is the Ray actor around it.
"""
