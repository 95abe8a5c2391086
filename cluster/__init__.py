"""Start and stop everything, in one order.

**Up.** Settings are read from the environment once and checked together; a wrong one ends the start with one
line. Then Postgres: the one that is named, or our own, whose data lives in a directory (`cluster.embedded`). It
is migrated, or its schema version is checked. Then Ray: the cluster that is named, or one of our own with an
address and a temp directory of its own, so that it never meets another Ray on this machine. Last the
coordinator, a detached actor, which starts the shards. Beside them all an exporter serves what is measured.
Each step needs only the ones before it, so whatever fails, what stands already can be taken down.

**Down**, on SIGINT or SIGTERM, is the same road backwards. Each shard hands back the timers it has claimed
(`drain()`), so that others fire them at once instead of when their lease runs out; then its actor is killed,
then the coordinator, then the Ray that we started, then our hold on Postgres. The embedded Postgres stops
when its last user lets go.

**Killed.** Nothing here is needed for a timer to be safe. What `kill -9` leaves behind heals without us:
leases run out, file locks fall with their process, Postgres recovers from its log. The orderly stop only
makes it quicker.

This is the top of the house: it may import everything, and nothing imports it.
"""
