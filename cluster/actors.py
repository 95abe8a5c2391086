"""The actors as Ray runs them: with our log format and the node's database.

The actors configure their logs themselves. A set-up hook in Ray's runtime environment could do that, too. But Ray can't
start an actor with a hook in a process that Ray started in advance: the first firing came three seconds later.
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
    """Keep one shard for as long as the actor lives."""

    def __init__(self, settings: ShardSettings, cluster_id: str, actor_name: str) -> None:
        logs.configure()
        incarnation = _incarnation(SHARD, cluster_id, actor_name, settings.identity)
        super().__init__(Shard(incarnation, settings, _dsn_here()))


class WorkerActor(Life):
    """Keep one worker for as long as the actor lives; the processes of the user's code are actors, too."""

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
    """Keep one engine for as long as the actor lives."""

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
        # The caller of the start learns only that the actor did not start, so the reason goes to the log.
        structlog.get_logger().error("the actor does not start", error=str(error))
        raise
