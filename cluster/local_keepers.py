"""Run each keeper in a separate process of this machine.

The host process does not import the keepers' modules, so that it starts sooner.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection

import structlog
import uvloop

from shardclock.reason import reason_of
from shardclock_server.cluster import logs
from shardclock_server.cluster.node import dsn_of_node
from shardclock_server.cluster.settings import Settings
from shardclock_server.coordinator.local_fleet import KeeperMain
from shardclock_server.coordinator.lost_holders import LEFT
from shardclock_server.keepers.life import Life, LongRunning, new_incarnation
from shardclock_server.sql.cluster.holders import ENGINE, LOCAL_NODE, SHARD, WORKER, Incarnation
from shardclock_server.workers.app import App

# The time for which keepers continue to work after the death of their host. The next host ends these keepers when its
# own keepers have registered. The restart of a host takes up to 20 s on a busy machine. If no host is started, the
# keepers release all claims after this time.
ORPHAN_S = 30.0
# A drain takes at most 3 s. If Postgres does not answer, the claims are not released, and their leases expire.
DRAIN_S = 5.0


@dataclass(frozen=True, slots=True)
class KeeperConfig:
    """The configuration of each keeper's process; `environment` has the variables of the settings and the database."""

    settings: Settings
    environment: Mapping[str, str] = field(repr=False)
    cluster_id: str
    app: App


Compose = Callable[[KeeperConfig, Incarnation], LongRunning]


def mains(config: KeeperConfig) -> dict[str, KeeperMain]:
    """Return, for each role, the function that a keeper's process of this role runs."""
    compose: dict[str, Compose] = {SHARD: _shard, WORKER: _worker, ENGINE: _engine}
    return {role: partial(_keep, config, role, made_by) for role, made_by in compose.items()}


def _shard(of: KeeperConfig, incarnation: Incarnation) -> LongRunning:
    from shardclock_server.shards.shard import Shard

    return Shard(incarnation, of.settings.shard, dsn_of_node())


def _worker(of: KeeperConfig, incarnation: Incarnation) -> LongRunning:
    from shardclock_server.workers.dependencies import Dependencies
    from shardclock_server.workers.machine import Machine
    from shardclock_server.workers.process import LocalHandlerProcess
    from shardclock_server.workers.runs.process import LocalRunProcess
    from shardclock_server.workers.worker import Worker

    app = of.app
    return Worker(
        incarnation,
        of.settings.worker,
        app.handlers,
        dsn_of_node(),
        start=partial(LocalHandlerProcess, modules=app.modules, directory=app.directory, python=app.python),
        jobs=app.jobs,
        start_run=partial(LocalRunProcess, modules=app.modules, directory=app.directory, python=app.python),
        dependencies=Dependencies(machine=Machine.here()),
    )


def _engine(of: KeeperConfig, incarnation: Incarnation) -> LongRunning:
    from shardclock_server.engine.engine import Engine

    return Engine(incarnation, of.settings.engine, dsn_of_node())


def _keep(of: KeeperConfig, role: str, compose: Compose, name: str, pipe: Connection) -> None:
    os.setsid()  # Ctrl-C in the terminal must reach only `up`
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logs.configure()
    os.environ |= of.environment  # the processes of the user's code read these variables, as on a Ray node
    incarnation = new_incarnation(role, of.cluster_id, name, identity=of.settings.identity or "", node_id=LOCAL_NODE)
    # Ray's actors use this event loop, too.
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        code = runner.run(_live(Life(compose(of, incarnation)), pipe))
    if code == 0:
        with suppress(OSError):  # the host has ended
            pipe.send(LEFT)
    # An ordinary exit would wait for threads of libraries, although no work is left.
    os._exit(code)


async def _live(life: Life, pipe: Connection) -> int:
    """Run the keeper until a message or SIGTERM requests a drain, or until the host has been dead for too long.

    shape:   the exit code of the process
    """
    drain = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, drain.set)
    loop.add_reader(pipe.fileno(), _hear, pipe, drain)
    watching, draining = asyncio.create_task(life.watch()), asyncio.create_task(drain.wait())
    await asyncio.wait([watching, draining], return_when=asyncio.FIRST_COMPLETED)
    try:
        if not watching.done():
            await asyncio.wait_for(life.drain(), DRAIN_S)
        await watching
    except Exception as error:  # noqa: BLE001 - the top of a process
        structlog.get_logger().warning("keeper ended", error=reason_of(error))
        return 1
    return 0


def _hear(pipe: Connection, drain: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    loop.remove_reader(pipe.fileno())
    try:
        pipe.recv()
    except (EOFError, OSError):
        structlog.get_logger().warning("the host has ended", drains_in_s=ORPHAN_S)
        loop.call_later(ORPHAN_S, drain.set)
    else:
        drain.set()
