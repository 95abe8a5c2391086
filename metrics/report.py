"""Define the report of a source, and send it as one datagram to a Unix socket, without waiting for an answer."""

import json
import math
import socket
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from shardclock_server.metrics.family import NO_SHARD, SHARD, Families, Family

REPORT_S = 1.0  # the interval between two reports of a source
BYTES_MAX = 100_000  # the limit of one datagram, below Linux's default limit
SOCKET_PATH_MAX = 100  # the limit of a socket's path in bytes; operating systems allow 104 to 108

Labels = tuple[str, ...]


class InvalidReport(ValueError):
    """Refuse a datagram that is not a report."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The total of a counter since the source's start, or the present value of a gauge."""

    name: str
    labels: Labels
    value: float


@dataclass(frozen=True, slots=True)
class Histogram:
    """The count of each bucket since the source's start (not cumulative); the last bucket is above the highest edge."""

    name: str
    labels: Labels
    counts: tuple[int, ...]
    sum: float


@dataclass(frozen=True, slots=True)
class MetricsReport:
    """The totals of a source since its start, so a lost report need not be sent again.

    shape:   `shard` is the value of the label `shard`, which the samples don't contain; `number` counts the source's
    reports from 1
    """

    source: str
    shard: str = NO_SHARD
    samples: Sequence[Sample] = ()
    histograms: Sequence[Histogram] = ()
    leaving: bool = False
    number: int = 1


class Reporter:
    """Send reports to the exporter of this node, if an exporter listens."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._sent, self._due_at_s = 0, 0.0
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) if path else None
        if self._socket is not None:
            self._socket.setblocking(False)

    @property
    def is_due(self) -> bool:
        """Return whether a socket is configured, and the last report was at least `REPORT_S` ago."""
        return self._socket is not None and time.monotonic() >= self._due_at_s

    def send(self, report: MetricsReport) -> None:
        """Send a report without waiting. If the send fails, nothing is lost: the next report contains all counts."""
        if self._socket is None or self._path is None:
            return
        self._due_at_s = time.monotonic() + REPORT_S
        self._sent += 1
        with suppress(OSError):
            self._socket.sendto(encode(replace(report, number=self._sent)), self._path)

    def close(self) -> None:
        """Close the socket."""
        if self._socket is not None:
            self._socket.close()


def encode(report: MetricsReport) -> bytes:
    """Write a report as JSON."""
    # `asdict` would copy each field, and take five times as long.
    fields = {
        "source": report.source,
        "shard": report.shard,
        "samples": [{"name": it.name, "labels": it.labels, "value": it.value} for it in report.samples],
        "histograms": [
            {"name": it.name, "labels": it.labels, "counts": it.counts, "sum": it.sum} for it in report.histograms
        ],
        "leaving": report.leaving,
        "number": report.number,
    }
    return json.dumps(fields, separators=(",", ":")).encode()


def decode(datagram: bytes, families: Families) -> MetricsReport:
    """Read a report, and check it against the known families.

    errors:  InvalidReport  the bytes are not a report, or the report has an unknown metric or label
    """
    try:
        fields = json.loads(datagram)
        return MetricsReport(
            source=_text(fields["source"]),
            shard=_shard(fields["shard"]),
            samples=[_sample(item, families) for item in fields["samples"]],
            histograms=[_histogram(item, families) for item in fields["histograms"]],
            leaving=fields["leaving"] is True,
            number=int(fields["number"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise InvalidReport(f"{type(error).__name__}: {error}") from error


def _sample(item: Any, families: Families) -> Sample:
    sample = Sample(_text(item["name"]), _labels(item["labels"]), _finite(item["value"]))
    family = families[sample.name]
    if family.kind == "histogram" or not _accepts(family, sample.labels):
        raise ValueError(f"{sample.name} {sample.labels}")
    return sample


def _histogram(item: Any, families: Families) -> Histogram:
    counts = tuple(map(int, item["counts"]))
    histogram = Histogram(_text(item["name"]), _labels(item["labels"]), counts, _finite(item["sum"]))
    family = families[histogram.name]
    is_whole = len(histogram.counts) == len(family.edges) + 1 and min(histogram.counts) >= 0
    if family.kind != "histogram" or not is_whole or not _accepts(family, histogram.labels):
        raise ValueError(f"{histogram.name} {histogram.labels}")
    return histogram


def _accepts(family: Family, labels: Labels) -> bool:
    return family.accepts((NO_SHARD, *labels) if SHARD in family.labels else labels)


def _shard(value: Any) -> str:
    if value not in SHARD.values:
        raise ValueError(f"shard {value!r}")
    return _text(value)


def _finite(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{value!r} is no number")
    return number


def _labels(values: Iterable[Any]) -> Labels:
    return tuple(map(_text, values))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value
