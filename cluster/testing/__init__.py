"""A cluster for a user's tests, whose clock stands still until the test moves it.

    async with shardclock.testing.cluster(app="reminders") as sc:
        await sc.client.schedule(delay="P3D", target="order.expired", payload={"order": 42})
        await sc.advance("P3D")

There is no Ray, and no loop that takes turns. `databases` lends each test a migrated Postgres database of its own, in
which `now()` is what the test has set. `stepping` goes from one moment at which something is due to the next; at each,
the shard and the worker of production make a step: the same statements, the same decisions, the same calls of the
user's code, in the test's own process (`keepers`). `moments` notices when a moment does not come to an end, and
`progress` logs the clock's position during a long advance. `api` serves the HTTP API, and `webhooks`
keeps the webhooks instead of sending them.

`shardclock.testing.cluster` finds `cluster` by its entry point: docs/decisions/0052-a-clock-that-tests-move.md.
"""

from shardclock_server.cluster.testing.stepping import SteppedCluster, cluster

__all__ = ["SteppedCluster", "cluster"]
