"""What a source says of itself, and how it is sent: a datagram to a file, which nobody answers."""

import json
import math
import socket
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from metrics.families import LABELS, NO_SHARD, REPORTED, Family

BYTES_MAX = 100_000  # of one datagram: below what Linux takes by default
SOCKET_PATH_MAX = 100  # bytes: the system's own limit is 104 to 108

Labels = tuple[str, ...]


class InvalidReport(ValueError):
    """A datagram that is no report of ours."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One number: of a counter since its source's start, of a gauge now."""

    name: str
    labels: Labels
    value: float


@dataclass(frozen=True, slots=True)
class Spread:
    """One histogram since its source's start: how many stayed within each edge but not the one before, then beyond."""

    name: str
    labels: Labels
    counts: tuple[int, ...]
    sum: float


@dataclass(frozen=True, slots=True)
class Report:
    """All that one source has to say; what it said before is in it.

    shape:   `shard` stands for the label of that name, which the samples leave out; `number` counts a source's
             reports from 1
    """

    source: str
    shard: str = NO_SHARD
    samples: Sequence[Sample] = ()
    spreads: Sequence[Spread] = ()
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
        """Send without waiting; a report that can't be sent now is in the next one."""
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


def decode(datagram: bytes) -> Report:
    """Read a report, and hold it against the families there are.

    errors:  InvalidReport  not a report, or with a metric or label that we don't have
    """
    try:
        said = json.loads(datagram)
        return Report(
            source=_text(said["source"]),
            shard=_shard(said["shard"]),
            samples=[_sample(item) for item in said["samples"]],
            spreads=[_spread(item) for item in said["spreads"]],
            leaving=said["leaving"] is True,
            number=int(said["number"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise InvalidReport(f"{type(error).__name__}: {error}") from error


def _sample(item: Any) -> Sample:
    sample = Sample(_text(item["name"]), _labels(item["labels"]), _finite(item["value"]))
    family = REPORTED[sample.name]
    if family.kind == "histogram" or not _accepts(family, sample.labels):
        raise ValueError(f"{sample.name} {sample.labels}")
    return sample


def _spread(item: Any) -> Spread:
    counts = tuple(map(int, item["counts"]))
    spread = Spread(_text(item["name"]), _labels(item["labels"]), counts, _finite(item["sum"]))
    family = REPORTED[spread.name]
    is_whole = len(spread.counts) == len(family.edges) + 1 and min(spread.counts) >= 0
    if family.kind != "histogram" or not is_whole or not _accepts(family, spread.labels):
        raise ValueError(f"{spread.name} {spread.labels}")
    return spread


def _accepts(family: Family, labels: Labels) -> bool:
    return family.accepts((NO_SHARD, *labels) if "shard" in family.labels else labels)


def _shard(value: Any) -> str:
    if value not in LABELS["shard"]:
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
