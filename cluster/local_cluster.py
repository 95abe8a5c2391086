"""Run the coordinator of local keepers in the host process."""

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from multiprocessing.context import ForkServerContext

import structlog
import uvloop

from shardclock_server.cluster import logs
from shardclock_server.cluster.host_events import ALIVE, FOUND, LOST, READY, STOP, TOLD, Say
from shardclock_server.cluster.local_keepers import KeeperConfig, mains
from shardclock_server.cluster.local_order import LocalOrder
from shardclock_server.cluster.node import dsn_of_node
from shardclock_server.cluster.settings import Settings, load_settings
from shardclock_server.coordinator.local_fleet import LocalFleet
from shardclock_server.coordinator.reconciler import Reconciler
from shardclock_server.embedded.server import EmbeddedPostgres, EmbeddedPostgresError

SETTLED_S = 2.0  # The gateway and the exporter start when the first keepers have registered, or after this time.
STUCK_S = 2.0  # The time between two checks whether shards start, and between two events ALIVE.


def coordinate(order: LocalOrder, context: ForkServerContext, say: Say, *, lines: Iterator[bytes]) -> int:
    """Coordinate keepers until a stop is requested; return 0 after an orderly stop, 1 if no shard starts.

    `lines` are the lines that `up` sends after the order.
    """
    logs.configure()
    os.environ |= order.environment
    settings = load_settings(metrics_socket=order.metrics_socket)
    config = KeeperConfig(settings, order.environment, order.cluster_id, order.named_app())
    fleets = [LocalFleet(role, main, context) for role, main in mains(config).items()]

    async def run() -> int:
        reconciler = Reconciler(
            settings.coordinator,
            dsn=dsn_of_node(),
            cluster_id=order.cluster_id,
            fleets=fleets,
            beside=order.beside or None,
            tell=partial(say, TOLD),
        )
        _obey(reconciler, lines)
        work = asyncio.create_task(reconciler.run(), name="coordinator")
        with suppress(TimeoutError):
            await asyncio.wait_for(reconciler.settled.wait(), SETTLED_S)
        say(READY, "")
        return await _until_ended(reconciler, work, say)

    with (
        _held(settings) if order.is_embedded else nullcontext(),
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        return runner.run(run())


async def _until_ended(reconciler: Reconciler, work: "asyncio.Task[None]", say: Say) -> int:
    say(ALIVE, "")
    while not (await asyncio.wait([work], timeout=STUCK_S))[0]:
        if reconciler.is_stuck:
            structlog.get_logger().error("no shard starts: the host ends, and is started again")
            return 1
        say(ALIVE, "")
    work.result()
    return 0


def _obey(reconciler: Reconciler, lines: Iterator[bytes]) -> None:
    """Handle SIGTERM and the lines of `up`: lead if Ray's host is lost, stand by if Ray's host is ready, or stop.

    If the lines end without the line STOP, `up` was killed. The keepers then continue for a limited time, at most until
    the keepers of the next `up` have started.
    """
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, reconciler.stop)

    acts: dict[bytes, Callable[..., None]] = {
        LOST: reconciler.lead_instead,
        FOUND: reconciler.lead_until_ready,
        STOP: reconciler.stop,
    }

    def act(line: bytes) -> None:
        word, *node_ids = line.split()
        acts[word](*(it.decode() for it in node_ids))

    def obey() -> None:
        with suppress(RuntimeError):  # the event loop has ended
            for line in lines:
                loop.call_soon_threadsafe(act, line)
            loop.call_soon_threadsafe(partial(reconciler.stop, is_orphan=True))

    threading.Thread(target=obey, name="stdin", daemon=True).start()


@contextmanager
def _held(settings: Settings) -> Iterator[None]:
    """Use the embedded Postgres during a block: it then runs until the keepers have drained, even if `up` is killed."""
    with ThreadPoolExecutor(1, "postgres") as pool:
        holding = pool.submit(EmbeddedPostgres.start, settings.data_dir, version=settings.postgres_version)
        try:
            yield
        finally:
            try:
                holding.result().close()
            except EmbeddedPostgresError as error:
                structlog.get_logger().warning("the embedded Postgres was not held", error=str(error))
