"""What a source reports, and how it is sent: one datagram to a Unix socket, without an answer."""

import json
import math
import socket
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from shardclock_server.metrics.family import NO_SHARD, SHARD, Families, Family

BYTES_MAX = 100_000  # of one datagram: below Linux's default limit
SOCKET_PATH_MAX = 100  # bytes: the system's own limit is 104 to 108

Labels = tuple[str, ...]


class InvalidReport(ValueError):
    """A datagram that is not one of our reports."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One number: a counter's total since its source's start, or a gauge's present value."""

    name: str
    labels: Labels
    value: float


@dataclass(frozen=True, slots=True)
class Histogram:
    """Non-cumulative bucket counts since the source's start; the last bucket is above the highest edge."""

    name: str
    labels: Labels
    counts: tuple[int, ...]
    sum: float


@dataclass(frozen=True, slots=True)
class Report:
    """All numbers of one source; a report includes all that earlier reports said.

    shape:   `shard` is the value of the label `shard`, which the samples leave out; `number` counts a source's
             reports from 1
    """

    source: str
    shard: str = NO_SHARD
    samples: Sequence[Sample] = ()
    histograms: Sequence[Histogram] = ()
    leaving: bool = False
    number: int = 1


class Reporter:
    """Send reports to this node's exporter, if one listens."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._sent = 0
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) if path else None
        if self._socket is not None:
            self._socket.setblocking(False)

    def send(self, report: Report) -> None:
        """Send without waiting; if it can't be sent now, the next report will say the same."""
        if self._socket is None or self._path is None:
            return
        self._sent += 1
        with suppress(OSError):
            self._socket.sendto(encode(replace(report, number=self._sent)), self._path)

    def close(self) -> None:
        """Close the socket."""
        if self._socket is not None:
            self._socket.close()


def encode(report: Report) -> bytes:
    """Write a report as JSON."""
    return json.dumps(asdict(report), separators=(",", ":")).encode()


def decode(datagram: bytes, families: Families) -> Report:
    """Read a report, and check it against the known families.

    errors:  InvalidReport  not a report, or one with an unknown metric or label
    """
    try:
        said = json.loads(datagram)
        return Report(
            source=_text(said["source"]),
            shard=_shard(said["shard"]),
            samples=[_sample(item, families) for item in said["samples"]],
            histograms=[_histogram(item, families) for item in said["histograms"]],
            leaving=said["leaving"] is True,
            number=int(said["number"]),
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
