"""Run an exporter in the test's own process, tell it things as shards do, and read its pages as Prometheus does."""

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

from metrics.exporter import Exporter, Place
from metrics.report import BYTES_MAX, Report, Reporter, decode
from tests.program import until
from tests.store import BOUND_S

Numbers = dict[tuple[str, ...], float]


@dataclass
class Page:
    """One answer."""

    status: int
    text: str
    content_type: str

    def numbers(self, name: str) -> Numbers:
        """Read the samples of a name, by their labels' values in the labels' order."""
        return {
            tuple(value for _, value in sorted(sample.labels.items())): sample.value
            for metric in text_string_to_metric_families(self.text)
            for sample in metric.samples
            if sample.name == f"shardclock_{name}"
        }

    def number(self, name: str) -> float | None:
        """Read the only sample of a name, if it is there."""
        found = self.numbers(name)
        assert len(found) < 2, found
        return next(iter(found.values()), None)


def get(address: str, path: str = "/metrics", **headers: str) -> Page:
    """Ask for a page."""
    with closing(http.client.HTTPConnection(urlsplit(address).netloc, timeout=BOUND_S)) as client:
        client.request("GET", path, headers=headers)
        answer = client.getresponse()
        return Page(answer.status, answer.read().decode(), answer.getheader("Content-Type", ""))


async def ask(address: str, path: str = "/metrics", **headers: str) -> Page:
    """Ask for a page from a test whose loop must go on meanwhile."""
    return await asyncio.to_thread(get, address, path, **headers)


@contextmanager
def short_dir() -> Iterator[Path]:
    """Give a directory whose name leaves room for a socket's."""
    path = Path(tempfile.mkdtemp(prefix="shardclock-test-"))
    try:
        yield path
    finally:
        shutil.rmtree(path)


@dataclass
class Exporting:
    """One exporter, and the way to its socket."""

    exporter: Exporter
    socket_path: str
    told: int = 0

    @property
    def address(self) -> str:
        """Name where it serves."""
        assert self.exporter.address is not None
        return self.exporter.address

    def get(self, path: str = "/metrics", **headers: str) -> Page:
        """Ask for a page, once all that was told has been heard."""
        until(lambda: self._heard() >= self.told, "the exporter to hear what it was told")
        return get(self.address, path, **headers)

    def tell(self, *reports: Report) -> None:
        """Send reports as a shard does."""
        reporter = Reporter(self.socket_path)
        for report in reports:
            reporter.send(report)
        reporter.close()
        self.told += len(reports)

    def tell_raw(self, datagram: bytes) -> None:
        """Send anything."""
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
    """Serve for the length of a block."""
    with short_dir() as place:
        path = place / "exporter.sock"
        exporter = Exporter(Place(host, port, path, dsn))
        with closing(exporter):
            exporter.start()
            yield Exporting(exporter, str(path))


@dataclass
class Ear:
    """Record what shards say, as an exporter would hear it."""

    socket_path: str
    _socket: socket.socket
    reports: list[Report] = field(default_factory=list)

    def hear(self) -> list[Report]:
        """Give all that was said so far."""
        try:
            while True:
                self.reports.append(decode(self._socket.recv(BYTES_MAX)))
        except BlockingIOError:
            return self.reports


@contextmanager
def listening() -> Iterator[Ear]:
    """Listen for the length of a block."""
    with short_dir() as place, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ear:
        ear.bind(str(place / "ear.sock"))
        ear.setblocking(False)
        yield Ear(str(place / "ear.sock"), ear)


def value_of(report: Report, name: str, *labels: str) -> float:
    """Read one number of a report."""
    return {(sample.name, *sample.labels): sample.value for sample in report.samples}[name, *labels]


def port_of(address: str) -> int:
    """Read the port of an address."""
    found = re.search(r":(\d+)$", address)
    assert found
    return int(found[1])
