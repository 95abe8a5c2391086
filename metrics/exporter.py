"""Run a node's exporter: receive the reports of processes, read Postgres's tables, and serve metrics from both."""

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
from shardclock_server.metrics.refusals import CannotListen
from shardclock_server.metrics.report import Histogram, InvalidReport, Sample, decode
from shardclock_server.metrics.server import MetricsServer, Pages
from shardclock_server.metrics.table_reader import TableReader
from shardclock_server.metrics.tables import samples_of
from shardclock_server.sql.dsn import Dsn

LOOP_S = 15.0  # the longest wait for a task of the exporter's event loop; each task has a shorter timeout
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ExporterConfig:
    """The settings of an exporter: its addresses for pages and reports, its metrics, and its database."""

    host: str
    port: int
    socket_path: Path
    reported: Families
    dsn: Dsn | None = None


class Exporter(Collector):
    """Export metrics in a separate thread."""

    def __init__(self, config: ExporterConfig, *, unready: Callable[[], list[str]] = list) -> None:
        self._config = config
        self._others_unready = unready
        self._receiver = _ReportReceiver(config.reported)
        self._reader: TableReader | None = None
        self._server: MetricsServer | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="exporter", daemon=True)

    @property
    def address(self) -> str | None:
        """Return the URL at which the pages are served, or None."""
        return self._server.address if self._server else None

    def start(self) -> None:
        """Listen for reports, then serve the pages.

        errors:  PortTaken     the port is not free; reports are still received; call again later
                 CannotListen  the socket for reports can't be created; call again later
        """
        if not self._thread.is_alive():
            self._thread.start()
        if not self._receiver.is_open:
            self._run(self._start_receiving())
        registry = CollectorRegistry()
        for collector in (PROCESS_COLLECTOR, PLATFORM_COLLECTOR, GC_COLLECTOR, self):
            registry.register(collector)
        pages = Pages(registry, unhealthy=self._unhealthy, unready=self._unready)
        self._server = MetricsServer(self._config.host, self._config.port, pages)

    def close(self) -> None:
        """Stop serving and listening; a second call does nothing."""
        if self._loop.is_closed():
            return
        if self._server is not None:
            self._server.close()
        if self._thread.is_alive():
            self._run(self._stop_receiving())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
        self._loop.close()

    def collect(self) -> Iterator[Metric]:
        """Return each family that has a value now."""
        samples, histograms, own = self._run(self._gather())
        yield from metrics_of(samples, histograms, {**self._config.reported, **READ})
        yield from own

    def describe(self) -> list[Metric]:
        """Return no families, because only the sources know which families have values."""
        return []

    async def _start_receiving(self) -> None:
        path = self._config.socket_path
        try:
            _remove_dead_socket(path)
            await self._loop.create_datagram_endpoint(
                lambda: self._receiver, local_addr=str(path), family=socket.AF_UNIX
            )
        except OSError as error:
            raise CannotListen(
                f"the metrics socket {path} can't be created ({error.strerror or error}): SHARDCLOCK_METRICS_SOCKET "
                "must name a file in an existing directory to which the exporter may write"
            ) from None
        if self._config.dsn is not None:
            self._reader = TableReader(self._config.dsn)

    async def _stop_receiving(self) -> None:
        if self._receiver.is_open:
            self._receiver.close()
            self._config.socket_path.unlink(missing_ok=True)
        if self._reader is not None:
            await self._reader.close()

    async def _gather(self) -> tuple[list[Sample], list[Histogram], list[Metric]]:
        tables = samples_of(await self._reader.fresh()) if self._reader else ()
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
        if self._reader is not None and self._run(self._reader.fresh()) is None:
            faults = [*faults, self._reader.why_not]
        return faults

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(LOOP_S)


class _ReportReceiver(asyncio.DatagramProtocol):
    """Pass each report to the aggregator, and count the refused reports."""

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
                structlog.get_logger().warning("a datagram is not a report of metrics", error=str(refusal)[:200])
            return
        self.aggregator.add(report, now_s=time.monotonic())

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


def _remove_dead_socket(path: Path) -> None:
    """Remove the socket file of a dead exporter; don't remove any other file, or the socket of a living exporter."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(str(path))
        except FileNotFoundError:
            return
        except ConnectionRefusedError:
            if path.is_socket():
                path.unlink(missing_ok=True)
            return  # any other file is not removed; the bind fails, and its error has the reason
    raise OSError(errno.EADDRINUSE, "another exporter listens there")
