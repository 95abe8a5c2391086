"""Run an exporter in the test's own process, send it reports as shards do, and read its pages as Prometheus does."""

from __future__ import annotations

import asyncio
import http.client
import re
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from prometheus_client.parser import text_string_to_metric_families

from shardclock_server.cluster.families import REPORTED
from shardclock_server.metrics.exporter import Exporter, ExporterConfig
from shardclock_server.metrics.report import BYTES_MAX, MetricsReport, Reporter, decode
from shardclock_server.sql.dsn import Dsn
from tests.support.factories import BOUND_S
from tests.support.program import until
from tests.support.roles import for_command

Numbers = dict[tuple[str, ...], float]


@dataclass
class Page:
    """The exporter's answer to one request."""

    status: int
    text: str
    content_type: str

    def numbers(self, name: str) -> Numbers:
        """Read the samples of a metric; the keys are the labels' values, in the order of the labels' names."""
        return {
            tuple(value for _, value in sorted(sample.labels.items())): sample.value
            for metric in text_string_to_metric_families(self.text)
            for sample in metric.samples
            if sample.name == f"shardclock_{name}"
        }

    def number(self, name: str) -> float | None:
        """Read the only sample of a metric, if it has a sample."""
        found = self.numbers(name)
        assert len(found) < 2, found
        return next(iter(found.values()), None)


def get(address: str, path: str = "/metrics", **headers: str) -> Page:
    with closing(http.client.HTTPConnection(urlsplit(address).netloc, timeout=BOUND_S)) as client:
        client.request("GET", path, headers=headers)
        answer = client.getresponse()
        return Page(answer.status, answer.read().decode(), answer.getheader("Content-Type", ""))


async def ask(address: str, path: str = "/metrics", **headers: str) -> Page:
    """Ask for a page without blocking the test's event loop."""
    return await asyncio.to_thread(get, address, path, **headers)


@contextmanager
def short_dir() -> Iterator[Path]:
    """Make a directory with a path that is short enough for a socket."""
    path = Path(tempfile.mkdtemp(prefix="shardclock-test-"))
    try:
        yield path
    finally:
        shutil.rmtree(path)


@dataclass
class Exporting:
    """One exporter, and the path of its socket."""

    exporter: Exporter
    socket_path: str
    told: int = 0

    @property
    def address(self) -> str:
        assert self.exporter.address is not None
        return self.exporter.address

    def get(self, path: str = "/metrics", **headers: str) -> Page:
        """Ask for a page, after the exporter has received all reports."""
        until(lambda: self._heard() >= self.told, "the exporter to hear what it was told")
        return get(self.address, path, **headers)

    def tell(self, *reports: MetricsReport) -> None:
        reporter = Reporter(self.socket_path)
        for report in reports:
            reporter.send(report)
        reporter.close()
        self.told += len(reports)

    def tell_raw(self, datagram: bytes) -> None:
        self.told += 1
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as mouth:
            mouth.sendto(datagram, self.socket_path)

    def _heard(self) -> float:
        if not self.told:
            return 0.0
        page = get(self.address)
        return (page.number("exporter_reports_total") or 0) + (page.number("exporter_reports_refused_total") or 0)


@contextmanager
def exporting(dsn: str | None = None, *, host: str = "127.0.0.1", port: int = 0) -> Iterator[Exporting]:
    with short_dir() as place:
        path = place / "exporter.sock"
        exporter = Exporter(
            ExporterConfig(host, port, path, REPORTED, None if dsn is None else Dsn(for_command(dsn, "exporter")))
        )
        with closing(exporter):
            exporter.start()
            yield Exporting(exporter, str(path))


@dataclass
class ReportReceiver:
    """Record the reports of shards, as an exporter would receive them."""

    socket_path: str
    _socket: socket.socket
    reports: list[MetricsReport] = field(default_factory=list)

    def received(self) -> list[MetricsReport]:
        try:
            while True:
                self.reports.append(decode(self._socket.recv(BYTES_MAX), REPORTED))
        except BlockingIOError:
            return self.reports


@contextmanager
def listening() -> Iterator[ReportReceiver]:
    with short_dir() as place, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(place / "receiver.sock"))
        receiver.setblocking(False)
        yield ReportReceiver(str(place / "receiver.sock"), receiver)


def value_of(report: MetricsReport, name: str, *labels: str) -> float:
    return {(sample.name, *sample.labels): sample.value for sample in report.samples}[name, *labels]


def port_of(address: str) -> int:
    found = re.search(r":(\d+)$", address)
    assert found
    return int(found[1])
