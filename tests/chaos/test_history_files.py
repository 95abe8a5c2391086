"""Prove that a saved history is loaded without a change, or refused."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from chaos.history import Bounds, History, Pending, Read
from chaos.history.calls import Call, HandlerCall, TimerRequest
from chaos.history.changes import (
    Commit,
    DeliveryDeleted,
    DeliveryWritten,
    HolderWritten,
    IncidentRaised,
    InstanceStepped,
    InstanceWritten,
    LeaderWritten,
    Recorded,
    TaskDeleted,
    TaskWritten,
    TimerDeleted,
    TimerWritten,
)
from chaos.history.faults import Fault
from chaos.history_files import load, save

AT = datetime(2026, 3, 29, 1, 30, 0, 123_456, tzinfo=UTC)
BIG = 2**63 - 1
ODD = 'line\nbreak, \u2028, "quoted", \x00, \ud800, ümlaut'

SPARSE = Call(1, "schedule", "ada", 0.1 + 0.2, None, "unknown")
FULL = Call(
    2, "reschedule", "bob", 1.5, 2.5, "ok",
    (TimerRequest(1), TimerRequest(BIG, ODD, AT, 0.3, "R3/PT1S", "{}", poison=True, target="x")),
    timer_key=7, name="order 7", delay_s=0.7, answer="RESCHEDULED", refused=(3, 4), resends=1, error=ODD,
    process="p", instance_key=BIG, task_key=8,
)  # fmt: skip
CHANGES = (
    TimerWritten(True, BIG, AT, "ada", None, None, 1, None, None, False),
    TimerWritten(False, 2, AT, "ada", ODD, "R3/PT1S", 2, -BIG, AT, True),
    TimerWritten(True, 2, AT, "ada", None, None, 1, None, None, False, BIG, "late"),
    TimerDeleted(2),
    Recorded(2, AT, 3, "ada", None, AT, 1, "TRIGGERED", None, None, None, None),
    Recorded(3, AT, 3, "ada", "name", AT, 1, "SKIPPED", 5, "R/PT1S", ODD, '{"count": 2}', "log", BIG),
    HolderWritten(5, None, None, 4711, AT, None, None),
    HolderWritten(5, 0, 2, 4711, AT, AT, AT, "worker"),
    LeaderWritten(BIG),
    LeaderWritten(None),
    DeliveryWritten(True, 3, "chaos.async", None, None, 0, 0),
    DeliveryWritten(False, 3, "chaos.async", BIG, AT, 2, 1),
    DeliveryWritten(True, 3, "x", None, None, 0, 0, "ada", BIG, "charge", True, ODD),
    DeliveryDeleted(3),
    InstanceWritten(True, BIG, "ada", "p", 1, None, None),
    InstanceWritten(False, BIG, "ada", "p", 2, "COMPLETED", ODD),
    InstanceStepped(BIG, 2, -BIG, "[]", ODD),
    TaskWritten(True, 8, BIG, "approve", True),
    TaskDeleted(8),
    IncidentRaised(BIG, "approve", ODD),
)
HISTORY = History(
    seed=7,
    began_at=1_795_240_000.25,
    ended_at=1_795_240_600.5,
    bounds=Bounds(2.0, 9.0, 2.0, 20.0, 100, 7.5, 30, 5, 6, 20_000, 500, 7),
    calls=[SPARSE, FULL],
    commits=[Commit(10, 1, AT, ()), Commit(20, 2, AT + timedelta(microseconds=1), CHANGES)],
    reads=[Read("reader 1", 2)],
    faults=[
        Fault(1, "poison", "poison", 1.0, 1.0),
        Fault(
            2,
            "kill",
            "kill a shard",
            1.0,
            2.0,
            (5, BIG),
            2.0,
            disturbs=False,
            detail={"pid": 4711, "of": ["a", None, 0.5]},
        ),
    ],
    pending=[Pending(9, AT, True)],
    poisoned=frozenset({5, 3, 4}),
    attempts=[HandlerCall(3, "chaos.async", "ada", 1, 2, "00ff", 0.1 + 0.2, 4711)],
    undelivered=[3],
    dead_letters=[4, BIG],
    running=[BIG],
    open_tasks=[8],
)


def test_a_loaded_history_equals_the_saved_history(tmp_path: Path) -> None:
    save(HISTORY, tmp_path)
    assert load(tmp_path) == HISTORY


def test_an_empty_history_can_be_saved_and_loaded(tmp_path: Path) -> None:
    save(HISTORY, tmp_path)
    save(History(1, 0.0, 1.0), tmp_path)
    assert load(tmp_path) == History(1, 0.0, 1.0)


def test_the_saved_history_has_a_value_in_every_field() -> None:
    # New fields must be saved too. This test fails until the history above has a value for each new field.
    filled: set[tuple[str, str]] = set()
    named: set[tuple[str, str]] = set()
    for thing in _things(HISTORY):
        names = [field.name for field in fields(thing)] if is_dataclass(thing) else list(getattr(thing, "_fields", ()))
        named |= {(type(thing).__name__, name) for name in names}
        filled |= {(type(thing).__name__, name) for name in names if getattr(thing, name) not in (None, (), [], {})}
    assert named - filled == set()
    assert {name for name, _ in named} >= {"TimerRequest", "Bounds", "Call", "Fault", "HolderWritten", "Recorded"}


def test_writing_that_was_interrupted_leaves_no_history(tmp_path: Path) -> None:
    save(HISTORY, tmp_path)
    broken = History(1, 0.0, 1.0, faults=[Fault(1, "kill", "kill", 0.0, 0.0, detail={"not JSON": object()})])
    with pytest.raises(AssertionError, match="can't be part of a history"):
        save(broken, tmp_path)
    with pytest.raises(FileNotFoundError):
        load(tmp_path)


def test_a_truncated_file_is_refused(tmp_path: Path) -> None:
    save(HISTORY, tmp_path)
    commits = tmp_path / "commits.ndjson.gz"
    first, *_ = gzip.decompress(commits.read_bytes()).splitlines(keepends=True)
    commits.write_bytes(gzip.compress(first))
    with pytest.raises(ValueError, match="1 of 2 rows: it was truncated"):
        load(tmp_path)


def _things(thing: object) -> Iterator[object]:
    """Yield all records inside a value."""
    if isinstance(thing, list | tuple) and not hasattr(thing, "_fields"):
        for one in thing:
            yield from _things(one)
    elif is_dataclass(thing) or hasattr(thing, "_fields"):
        yield thing
        names = getattr(thing, "_fields", None) or [field.name for field in fields(thing)]  # type: ignore[arg-type]
        for name in names:
            yield from _things(getattr(thing, name))
