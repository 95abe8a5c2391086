"""The coordinator of local keepers, in its host process."""

import asyncio
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from multiprocessing.context import ForkServerContext

import structlog

from shardclock_server.cluster import logs
from shardclock_server.cluster.end_of_input import wait_for_end_of_input
from shardclock_server.cluster.host_events import READY, Say
from shardclock_server.cluster.local_keepers import KeeperConfig, mains
from shardclock_server.cluster.local_order import LocalOrder
from shardclock_server.cluster.node import dsn_of_node
from shardclock_server.cluster.settings import Settings, load_settings
from shardclock_server.coordinator.local_fleet import LocalFleet
from shardclock_server.coordinator.reconciler import Reconciler, new_incarnation
from shardclock_server.embedded.server import EmbeddedPostgres, EmbeddedPostgresError

STUCK_S = 2.0  # between two checks whether shards come up


def coordinate(order: LocalOrder, context: ForkServerContext, say: Say) -> int:
    """Coordinate keepers until told to stop; return 0 after an orderly stop, 1 if no shard comes up."""
    logs.configure()
    os.environ |= order.database
    settings = load_settings(metrics_socket=order.metrics_socket)
    config = KeeperConfig(settings, order.database, order.cluster_id, order.named_app())
    fleets = [LocalFleet(role, main, context) for role, main in mains(config).items()]

    async def run() -> int:
        reconciler = Reconciler(
            settings.coordinator,
            dsn=dsn_of_node(),
            cluster_id=order.cluster_id,
            incarnation=new_incarnation(),
            fleets=fleets,
        )
        _stop_when_told(reconciler)
        say(READY, "")
        return await _until_ended(reconciler)

    with _held(settings) if order.is_embedded else nullcontext():
        return asyncio.run(run())


async def _until_ended(reconciler: Reconciler) -> int:
    work = asyncio.create_task(reconciler.run(), name="coordinator")
    while not (await asyncio.wait([work], timeout=STUCK_S))[0]:
        if reconciler.is_stuck:
            structlog.get_logger().error("no shard comes up: the host ends, and is started again")
            return 1
    work.result()
    return 0


def _stop_when_told(reconciler: Reconciler) -> None:
    """Stop at SIGTERM, at SIGINT, and at the end of standard input."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, reconciler.stop)

    def wait_for_the_end() -> None:
        wait_for_end_of_input()
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(reconciler.stop)

    threading.Thread(target=wait_for_the_end, name="stdin", daemon=True).start()


@contextmanager
def _held(settings: Settings) -> Iterator[None]:
    """Hold the embedded Postgres: it then runs until the keepers have drained, even if `up` is killed."""
    with ThreadPoolExecutor(1, "postgres") as pool:
        holding = pool.submit(EmbeddedPostgres.start, settings.data_dir, version=settings.postgres_version)
        try:
            yield
        finally:
            try:
                holding.result().close()
            except EmbeddedPostgresError as error:
                structlog.get_logger().warning("the embedded Postgres was not held", error=str(error))
