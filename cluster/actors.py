"""Define the actors that Ray runs; an actor uses our log format, and the database that its node names.

The actors configure their logs themselves. A set-up hook in Ray's runtime environment would prevent the use of Ray's
prestarted processes, and so delay the first firing by three seconds.
"""

from functools import partial
from typing import Any

import structlog

from shardclock_server.cluster import logs
from shardclock_server.cluster.node import NoDatabase, dsn_of_node
from shardclock_server.coordinator import actor as coordinators
from shardclock_server.engine.engine import Engine
from shardclock_server.engine.settings import EngineSettings
from shardclock_server.keepers.life import Life, new_incarnation
from shardclock_server.shards.settings import ShardSettings
from shardclock_server.shards.shard import Shard
from shardclock_server.sql.cluster.holders import ENGINE, SHARD, WORKER, Incarnation
from shardclock_server.sql.dsn import Dsn, InvalidDsn
from shardclock_server.workers.app import WorkerConfig
from shardclock_server.workers.dependencies import Dependencies
from shardclock_server.workers.process import RayHandlerProcess
from shardclock_server.workers.runs.process import RayRunProcess, has_node
from shardclock_server.workers.worker import Worker


class ShardActor(Life):
    """Run one shard as long as the actor runs."""

    def __init__(self, settings: ShardSettings, cluster_id: str, actor_name: str) -> None:
        logs.configure()
        incarnation = _incarnation(SHARD, cluster_id, actor_name, settings.identity)
        super().__init__(Shard(incarnation, settings, _dsn_here()))


class WorkerActor(Life):
    """Run one worker as long as the actor runs; the processes of the user's code are also actors."""

    def __init__(self, config: WorkerConfig, cluster_id: str, actor_name: str) -> None:
        logs.configure()
        app = config.app
        resource = config.settings.worker_resource
        given: dict[str, Any] = {
            "modules": app.modules,
            "directory": app.directory,
            "resource": resource,
            "python": app.python,
        }
        super().__init__(
            Worker(
                _incarnation(WORKER, cluster_id, actor_name, config.settings.identity),
                config.settings,
                app.handlers,
                _dsn_here(),
                start=partial(RayHandlerProcess, **given),
                jobs=app.jobs,
                start_run=partial(RayRunProcess, **given),
                dependencies=Dependencies(has_node=partial(has_node, resource=resource)),
            )
        )


class EngineActor(Life):
    """Run one engine as long as the actor runs."""

    def __init__(self, settings: EngineSettings, cluster_id: str, actor_name: str) -> None:
        logs.configure()
        incarnation = _incarnation(ENGINE, cluster_id, actor_name, settings.identity)
        super().__init__(Engine(incarnation, settings, _dsn_here()))


class CoordinatorActor(coordinators.Coordinator):
    """Coordinate a cluster, in a separate process with our log format."""

    def __init__(self, *args: Any) -> None:
        logs.configure()
        super().__init__(*args, dsn=_dsn_here())


def _incarnation(role: str, cluster_id: str, actor_name: str, identity: str) -> Incarnation:
    import ray

    node_id = ray.get_runtime_context().get_node_id()
    return new_incarnation(role, cluster_id, actor_name, identity=identity, node_id=node_id)


def _dsn_here() -> Dsn:
    try:
        return dsn_of_node()
    except (NoDatabase, InvalidDsn) as error:
        # Log the reason, because Ray reports to the caller only that the actor did not start.
        structlog.get_logger().error("the actor does not start", error=str(error))
        raise
