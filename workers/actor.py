"""The Ray actor around one worker. It decides nothing."""

from functools import partial

from shardclock_server.keepers.life import Life, new_incarnation
from shardclock_server.sql.cluster.holders import WORKER
from shardclock_server.sql.dsn import Dsn
from shardclock_server.workers.app import WorkerConfig
from shardclock_server.workers.process import RayHandlerProcess
from shardclock_server.workers.runs.process import RayRunProcess, has_node
from shardclock_server.workers.surroundings import Surroundings
from shardclock_server.workers.worker import Worker


class WorkerActor:
    """Keep one worker for as long as the actor lives; a new actor is a new holder."""

    def __init__(self, config: WorkerConfig, cluster_id: str, actor_name: str, *, dsn: Dsn) -> None:
        incarnation = new_incarnation(WORKER, cluster_id, actor_name, config.settings.identity)
        app, resource = config.app, config.settings.worker_resource
        self._life = Life(
            Worker(
                incarnation,
                config.settings,
                app.handlers,
                dsn,
                start=partial(RayHandlerProcess, modules=app.modules, directory=app.directory, resource=resource),
                jobs=app.jobs,
                start_run=partial(RayRunProcess, modules=app.modules, directory=app.directory, resource=resource),
                surroundings=Surroundings(has_node=partial(has_node, resource=resource)),
            )
        )

    async def start(self) -> int:
        """Start the worker at the first call, and return its holder."""
        return self._life.start()

    async def watch(self) -> None:
        """Return when the worker has drained, and fail when it fails; the pending call also fails when the actor dies.

        errors:  HolderEnded  the worker was declared dead, and other workers have its deliveries
        """
        await self._life.watch()

    async def drain(self) -> int:
        """Stop claiming, hand back what is in hand, end the holder and return it; takes a few seconds at most."""
        return await self._life.drain()
