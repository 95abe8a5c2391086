"""The exporter of one node: it hears reports, has the tables read, and serves both."""

import asyncio
import errno
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import structlog
from prometheus_client import GC_COLLECTOR, PLATFORM_COLLECTOR, PROCESS_COLLECTOR, CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from metrics.board import Board
from metrics.page import families_of, of_exporter
from metrics.reading import Reading
from metrics.report import InvalidReport, Sample, Spread, decode
from metrics.server import CannotListen, MetricsServer, Pages
from metrics.tables import samples_of

LOOP_S = 15.0  # for anything asked of the loop, which has its own, tighter bounds
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Place:
    """Where an exporter serves its pages, where it listens for reports, and which database it reads, if any."""

    host: str
    port: int
    socket_path: Path
    dsn: str | None = None


class Exporter(Collector):
    """Run on a thread of its own, beside whatever else this process does."""

    def __init__(self, place: Place, *, unready: Callable[[], list[str]] = list) -> None:
        self._place = place
        self._others_unready = unready
        self._ear = _Ear()
        self._reading: Reading | None = None
        self._server: MetricsServer | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="exporter", daemon=True)

    @property
    def address(self) -> str | None:
        """Name where the pages are served, if they are."""
        return self._server.address if self._server else None

    def start(self) -> None:
        """Listen for reports, then serve the pages.

        errors:  PortTaken     reports are heard all the same; call again when the port may be free
                 CannotListen  the socket can't be made; call again when it may be
        """
        if not self._thread.is_alive():
            self._thread.start()
        if not self._ear.is_open:
            self._run(self._open())
        registry = CollectorRegistry()
        for collector in (PROCESS_COLLECTOR, PLATFORM_COLLECTOR, GC_COLLECTOR, self):
            registry.register(collector)
        pages = Pages(registry, unhealthy=self._unhealthy, unready=self._unready)
        self._server = MetricsServer(self._place.host, self._place.port, pages)

    def close(self) -> None:
        """Stop serving and listening; a second call does nothing."""
        if self._loop.is_closed():
            return
        if self._server is not None:
            self._server.close()
        if self._thread.is_alive():
            self._run(self._shut())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
        self._loop.close()

    def collect(self) -> Iterator[Metric]:
        """Give every family there is something to say about."""
        samples, spreads, own = self._run(self._look())
        yield from families_of(samples, spreads)
        yield from own

    def describe(self) -> list[Metric]:
        """Name nothing ahead: which families there are depends on who reports."""
        return []

    async def _open(self) -> None:
        path = self._place.socket_path
        try:
            _make_room(path)
            await self._loop.create_datagram_endpoint(lambda: self._ear, local_addr=str(path), family=socket.AF_UNIX)
        except OSError as error:
            raise CannotListen(
                f"the metrics socket {path} can't be made ({error.strerror or error}): SHARDCLOCK_METRICS_SOCKET must "
                "name a file in a directory that is there and may be written to"
            ) from None
        if self._place.dsn is not None:
            self._reading = Reading(self._place.dsn)

    async def _shut(self) -> None:
        if self._ear.is_open:
            self._ear.close()
            self._place.socket_path.unlink(missing_ok=True)
        if self._reading is not None:
            await self._reading.close()

    async def _look(self) -> tuple[list[Sample], list[Spread], list[Metric]]:
        tables = samples_of(await self._reading.fresh()) if self._reading else ()
        board = self._ear.board
        board.expire(now_s=time.monotonic())
        own = of_exporter(sources=len(board), reports=board.reports, refused=self._ear.refused)
        return [*board.samples(), *tables], list(board.spreads()), list(own)

    def _unhealthy(self) -> list[str]:
        try:
            self._run(asyncio.sleep(0))
        except TimeoutError:
            return [f"the exporter has not turned for {LOOP_S:.0f} s"]
        return []

    def _unready(self) -> list[str]:
        faults = self._others_unready()
        if self._reading is not None and self._run(self._reading.fresh()) is None:
            faults = [*faults, self._reading.why_not]
        return faults

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(LOOP_S)


class _Ear(asyncio.DatagramProtocol):
    """Take reports in as they come."""

    def __init__(self) -> None:
        self.board = Board()
        self.refused = 0
        self._transport: asyncio.BaseTransport | None = None

    @property
    def is_open(self) -> bool:
        return self._transport is not None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, addr: object) -> None:  # noqa: ARG002 - the protocol's signature
        try:
            report = decode(data)
        except InvalidReport as refusal:
            self.refused += 1
            if self.refused == 1:
                structlog.get_logger().warning("a datagram was no report", error=str(refusal)[:200])
            return
        self.board.hear(report, now_s=time.monotonic())

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


def _make_room(path: Path) -> None:
    """Remove the file of an exporter that was killed; one that somebody listens on, or that is no socket, stays."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(str(path))
        except FileNotFoundError:
            return
        except ConnectionRefusedError:
            if path.is_socket():
                path.unlink(missing_ok=True)
            return  # anything else is in the way, and binding says so
    raise OSError(errno.EADDRINUSE, "another exporter listens there")
