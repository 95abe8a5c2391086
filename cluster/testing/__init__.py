"""Run a cluster in a user's test, with a clock that only the test moves.

    async with shardclock.testing.cluster(app="reminders") as sc:
        await sc.client.schedule(delay="P3D", target="order.expired", payload={"order": 42})
        await sc.advance("P3D")

The cluster has no Ray and no background loops. `databases` lends each test a separate migrated database, in which
`now()` returns the time of the test's clock. `stepping` moves the clock to each moment at which work is due, one moment
after the other. At each of these moments, the shard, the worker and the engine (`keepers`) do this work in the test's
own process, with the code of production. `moments` raises an error if the work at one moment never ends, and `progress`
logs the clock during a long advance. `api` serves the HTTP API. `environment` sets the environment variables that give
clients the URL of the test cluster. `webhooks` records webhooks instead of sending them.

`shardclock.testing.cluster` finds this package's `cluster` by an entry point:
docs/decisions/0052-a-clock-that-tests-move.md.
"""

from shardclock_server.cluster.testing.stepping import SteppedCluster, cluster

__all__ = ["SteppedCluster", "cluster"]
