"""The actors as the cluster runs them: with our log format and the node's database.

The actors configure their logs themselves. A set-up hook in Ray's runtime environment could do that, too, but Ray can't
use a process that it has started in advance for an actor with such a hook. The first firing was then three seconds
later.
"""

from typing import Any

import structlog

from shardclock_server.cluster import logs
from shardclock_server.cluster.node import NoDatabase, dsn_of_node
from shardclock_server.coordinator import actor as coordinators
from shardclock_server.engine import actor as engines
from shardclock_server.shards import actor as shards
from shardclock_server.sql.dsn import Dsn, InvalidDsn
from shardclock_server.workers import actor as workers


class ShardActor(shards.ShardActor):
    """Keep a shard, in a process of its own with our log format."""

    def __init__(self, *args: Any) -> None:
        logs.configure()
        super().__init__(*args, dsn=_dsn_here())


class WorkerActor(workers.WorkerActor):
    """Keep a worker, in a process of its own with our log format."""

    def __init__(self, *args: Any) -> None:
        logs.configure()
        super().__init__(*args, dsn=_dsn_here())


class EngineActor(engines.EngineActor):
    """Keep an engine, in a process of its own with our log format."""

    def __init__(self, *args: Any) -> None:
        logs.configure()
        super().__init__(*args, dsn=_dsn_here())


class CoordinatorActor(coordinators.CoordinatorActor):
    """Coordinate a cluster, in a process of its own with our log format."""

    def __init__(self, *args: Any) -> None:
        logs.configure()
        super().__init__(*args, dsn=_dsn_here())


def _dsn_here() -> Dsn:
    try:
        return dsn_of_node()
    except (NoDatabase, InvalidDsn) as error:
        # The caller that asked for this actor learns only that it did not start, so the reason goes to the log.
        structlog.get_logger().error("the actor does not start", error=str(error))
        raise
