"""The exporter of one node: it receives reports, reads the tables, and serves both."""

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

from shardclock_server.metrics.aggregator import Aggregator
from shardclock_server.metrics.families import READ
from shardclock_server.metrics.family import Families
from shardclock_server.metrics.page import metrics_of, of_exporter
from shardclock_server.metrics.reading import Reading
from shardclock_server.metrics.refusals import CannotListen
from shardclock_server.metrics.report import Histogram, InvalidReport, Sample, decode
from shardclock_server.metrics.server import MetricsServer, Pages
from shardclock_server.metrics.tables import samples_of
from shardclock_server.sql.dsn import Dsn

LOOP_S = 15.0  # longest wait for work on the exporter's loop; the work has shorter timeouts of its own
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ExporterConfig:
    """Where an exporter serves pages and receives reports, which families it accepts, and which database it reads."""

    host: str
    port: int
    socket_path: Path
    reported: Families
    dsn: Dsn | None = None


class Exporter(Collector):
    """Export metrics from a thread of its own, beside the other work of this process."""

    def __init__(self, place: ExporterConfig, *, unready: Callable[[], list[str]] = list) -> None:
        self._place = place
        self._others_unready = unready
        self._receiver = _ReportReceiver(place.reported)
        self._reading: Reading | None = None
        self._server: MetricsServer | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="exporter", daemon=True)

    @property
    def address(self) -> str | None:
        """Return the URL at which the pages are served, or None."""
        return self._server.address if self._server else None

    def start(self) -> None:
        """Listen for reports, then serve the pages.

        errors:  PortTaken     reports are received nevertheless; call again when the port may be free
                 CannotListen  the socket can't be made; call again when that may succeed
        """
        if not self._thread.is_alive():
            self._thread.start()
        if not self._receiver.is_open:
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
        """Return every family that has a value now."""
        samples, histograms, own = self._run(self._look())
        yield from metrics_of(samples, histograms, {**self._place.reported, **READ})
        yield from own

    def describe(self) -> list[Metric]:
        """Return no families in advance: the sources decide which ones have values."""
        return []

    async def _open(self) -> None:
        path = self._place.socket_path
        try:
            _make_room(path)
            await self._loop.create_datagram_endpoint(
                lambda: self._receiver, local_addr=str(path), family=socket.AF_UNIX
            )
        except OSError as error:
            raise CannotListen(
                f"the metrics socket {path} can't be made ({error.strerror or error}): SHARDCLOCK_METRICS_SOCKET must "
                "name a file in a directory that is there and may be written to"
            ) from None
        if self._place.dsn is not None:
            self._reading = Reading(self._place.dsn)

    async def _shut(self) -> None:
        if self._receiver.is_open:
            self._receiver.close()
            self._place.socket_path.unlink(missing_ok=True)
        if self._reading is not None:
            await self._reading.close()

    async def _look(self) -> tuple[list[Sample], list[Histogram], list[Metric]]:
        tables = samples_of(await self._reading.fresh()) if self._reading else ()
        aggregator = self._receiver.aggregator
        aggregator.expire(now_s=time.monotonic())
        own = of_exporter(sources=len(aggregator), reports=aggregator.reports, refused=self._receiver.refused)
        return [*aggregator.samples(), *tables], list(aggregator.histograms()), list(own)

    def _unhealthy(self) -> list[str]:
        try:
            self._run(asyncio.sleep(0))
        except TimeoutError:
            return [f"the exporter's loop has not answered for {LOOP_S:.0f} s"]
        return []

    def _unready(self) -> list[str]:
        faults = self._others_unready()
        if self._reading is not None and self._run(self._reading.fresh()) is None:
            faults = [*faults, self._reading.why_not]
        return faults

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(LOOP_S)


class _ReportReceiver(asyncio.DatagramProtocol):
    """Receive reports as they come."""

    def __init__(self, families: Families) -> None:
        self._families = families
        self.aggregator = Aggregator(families)
        self.refused = 0
        self._transport: asyncio.BaseTransport | None = None

    @property
    def is_open(self) -> bool:
        return self._transport is not None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, addr: object) -> None:  # noqa: ARG002 - the protocol's signature
        try:
            report = decode(data, self._families)
        except InvalidReport as refusal:
            self.refused += 1
            if self.refused == 1:
                structlog.get_logger().warning("a datagram was no report", error=str(refusal)[:200])
            return
        self.aggregator.add(report, now_s=time.monotonic())

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


def _make_room(path: Path) -> None:
    """Remove the socket file of a killed exporter; keep it if an exporter listens there, or if it is not a socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(str(path))
        except FileNotFoundError:
            return
        except ConnectionRefusedError:
            if path.is_socket():
                path.unlink(missing_ok=True)
            return  # any other file stays, and binding the socket will fail with the reason
    raise OSError(errno.EADDRINUSE, "another exporter listens there")
