"""Test that a report arrives unchanged, and that any other datagram is refused."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shardclock_server.cluster.families import REPORTED
from shardclock_server.metrics.family import NO_SHARD, SHARD
from shardclock_server.metrics.report import (
    BYTES_MAX,
    Histogram,
    InvalidReport,
    MetricsReport,
    Reporter,
    Sample,
    decode,
    encode,
)
from shardclock_server.shards.families import LAG_EDGES_S, TIMER_TYPE

LAGS = Histogram("fire_lag_seconds", ("log", "USER", "ahead"), (3, *[0] * 17, 1), 4_000.5)
REPORT = MetricsReport("a", "7", [Sample("timers_fired", (), 4), Sample("turn_failures", ("fires",), 1)], [LAGS])


def said(**changes: Any) -> bytes:
    """Write a report with some fields replaced, as a foreign program could send it."""
    return json.dumps(json.loads(encode(REPORT)) | changes).encode()


def sample(**changes: Any) -> bytes:
    return said(samples=[{"name": "timers_fired", "labels": [], "value": 1, **changes}])


def histogram(**changes: Any) -> bytes:
    counts = [1] * (len(LAG_EDGES_S) + 1)
    return said(
        histograms=[
            {"name": "fire_lag_seconds", "labels": ["log", "USER", "ahead"], "counts": counts, "sum": 1.5, **changes}
        ]
    )


@pytest.mark.parametrize("report", [REPORT, replace(REPORT, leaving=True), MetricsReport("alone")])
def test_a_report_reads_back_unchanged(report: MetricsReport) -> None:
    assert decode(encode(report), REPORTED) == replace(
        report, samples=list(report.samples), histograms=list(report.histograms)
    )


def test_the_unchanged_reports_of_these_tests_are_accepted() -> None:
    assert decode(sample(), REPORTED).samples == [Sample("timers_fired", (), 1.0)]
    assert decode(histogram(), REPORTED).histograms[0].counts == (1,) * 19


NOT_REPORTS = {
    "nothing": b"",
    "not JSON": b"fired 3",
    "not UTF-8": b"\xff\xfe\x00",
    "cut off": encode(REPORT)[:-9],
    "a list": b"[]",
    "a text": b'"report"',
    "an empty object": b"{}",
    "very deep": b"[" * 50_000,
    "a number without end": b"1" * 5_000,
    "no source": said(source=None),
    "a shard that can't be": said(shard="840"),
    "a shard that is a number": said(shard=7),
    "a shard that is a list": said(shard=[]),
    "samples that are a number": said(samples=3),
    "a sample that is a list": said(samples=[[]]),
    "an unknown metric": sample(name="timers_invented"),
    "a metric of the tables": sample(name="pending_timers"),
    "a metric without a name": sample(name=None),
    "one label too many": sample(labels=["log"]),
    "one label too few": sample(name="turn_failures"),
    "a label's unknown value": sample(name="turn_failures", labels=["sleeps"]),
    "a label that is a number": sample(name="turn_failures", labels=[1]),
    "a histogram as a number": sample(name="takeover_seconds"),
    "no value": sample(value=None),
    "a value that is a word": sample(value="many"),
    "no number": sample(value=float("nan")),
    "more than any number": sample(value=float("inf")),
    "a number that is too large": sample(value=10**400),
    "a number as a histogram": histogram(name="timers_fired", labels=[]),
    "an unknown target": histogram(labels=["moon", "USER"]),
    "an unknown timer type": histogram(labels=["log", "SAND"]),
    "too many counts": histogram(counts=[1] * 20),
    "too few counts": histogram(counts=[1] * 18),
    "no counts": histogram(counts=[]),
    "fewer than none": histogram(counts=[-1, *[0] * 18]),
    "a count without end": histogram(counts=[float("inf"), *[0] * 18]),
    "a sum that is no number": histogram(sum=float("nan")),
    "a sum without end": histogram(sum=float("-inf")),
}


@pytest.mark.parametrize("datagram", NOT_REPORTS.values(), ids=NOT_REPORTS)
def test_a_datagram_that_is_not_a_report_is_refused(datagram: bytes) -> None:
    with pytest.raises(InvalidReport):
        decode(datagram, REPORTED)


def test_the_largest_possible_report_fits_into_a_datagram() -> None:
    samples = [
        Sample(name, tuple(max(label.values, key=len) for label in family.labels if label != SHARD), 2**62)
        for name, family in REPORTED.items()
        if family.kind != "histogram"
    ]
    histograms = [Histogram(LAGS.name, ("log", kind, "ahead"), (2**62,) * 19, 1e300) for kind in TIMER_TYPE.values]

    assert len(encode(MetricsReport("f" * 16, "839", samples * 5, histograms))) < BYTES_MAX


# Sending


@pytest.fixture
def place(tmp_path: Path) -> Iterator[tuple[str, socket.socket]]:
    """Listen as an exporter does, on a socket with a short path."""
    path = tmp_path / "e.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ear:
        ear.bind(str(path))
        ear.settimeout(5)
        yield str(path), ear


def test_a_reporter_sends_one_datagram_for_each_report(place: tuple[str, socket.socket]) -> None:
    path, ear = place
    reporter = Reporter(path)

    reporter.send(REPORT)
    reporter.send(MetricsReport("b"))

    assert decode(ear.recv(BYTES_MAX), REPORTED) == REPORT
    assert decode(ear.recv(BYTES_MAX), REPORTED) == MetricsReport("b", samples=[], histograms=[], number=2)
    reporter.close()


def test_a_report_is_due_one_second_after_the_last_report(
    place: tuple[str, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    reporter, silent, now_s = Reporter(place[0]), Reporter(None), 1_000.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)

    due = [reporter.is_due]
    reporter.send(REPORT)
    for passed_s in (0.0, 0.5, 0.5):
        now_s += passed_s
        due.append(reporter.is_due)

    assert due == [True, False, False, True]
    assert not silent.is_due
    reporter.close()


def test_a_report_without_a_listener_is_dropped(tmp_path: Path, place: tuple[str, socket.socket]) -> None:
    path, ear = place
    ear.close()
    for where in (None, str(tmp_path / "missing.sock"), "/" + "x" * 200):
        reporter = Reporter(where)
        reporter.send(REPORT)
        reporter.close()
    deaf = Reporter(path)
    deaf.send(REPORT)

    Path(path).unlink()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as again:
        again.bind(path)
        again.settimeout(5)
        deaf.send(MetricsReport("b"))
        deaf.close()

        assert decode(again.recv(BYTES_MAX), REPORTED) == MetricsReport("b", samples=[], histograms=[], number=2)


def test_a_report_to_a_full_socket_is_dropped_and_a_later_one_arrives(
    place: tuple[str, socket.socket],
) -> None:
    path, ear = place
    reporter = Reporter(path)
    for _ in range(10_000):  # far more than a socket's buffer holds
        reporter.send(REPORT)
    ear.setblocking(False)
    kept = 0
    while _has_said(ear):
        kept += 1

    reporter.send(MetricsReport("later", NO_SHARD))

    assert 0 < kept < 10_000
    assert decode(ear.recv(BYTES_MAX), REPORTED).source == "later"
    reporter.close()


def _has_said(ear: socket.socket) -> bool:
    try:
        return bool(ear.recv(BYTES_MAX))
    except BlockingIOError:
        return False
