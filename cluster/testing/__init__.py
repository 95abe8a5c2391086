"""A cluster for a user's tests, with a clock that only the test moves.

    async with shardclock.testing.cluster(app="reminders") as sc:
        await sc.client.schedule(delay="P3D", target="order.expired", payload={"order": 42})
        await sc.advance("P3D")

There is no Ray, and no loop that makes turns. `databases` lends each test a separate migrated Postgres database, in
which `now()` is the test's moment. `stepping` goes from one moment with due work to the next. At each moment the shard,
the worker and the engine of production make a step in the test's own process (`keepers`): the same statements, the same
decisions, the same calls of the user's code. `moments` raises an error when a moment does not come to an end, and
`progress` logs the clock's position during a long advance. `api` serves the HTTP API, `environment` names the
cluster to clients without a URL, and `webhooks` records the webhooks instead of sending them.

`shardclock.testing.cluster` finds `cluster` by its entry point: docs/decisions/0052-a-clock-that-tests-move.md.
"""

from shardclock_server.cluster.testing.stepping import SteppedCluster, cluster

__all__ = ["SteppedCluster", "cluster"]
