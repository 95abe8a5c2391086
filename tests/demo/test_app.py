"""Prove that each call of the demo's handler ends as the payload demands, and is recorded before it can fail."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shardclock import Completed, Outcome
from shardclock.testing import call
from shardclock_server.demo.app import release_goods
from shardclock_server.demo.calls import calls_file, note_call, read_calls
from shardclock_server.demo.example import (
    ATTEMPTS_MAX,
    BUSY,
    CLOSED,
    EXPECTED,
    OPEN,
    TARGET,
    example_lines,
    expected_end,
)
from shardclock_server.demo.run import APP
from shardclock_server.timers.model import NewTimer
from shardclock_server.workers.app import find_app


@pytest.fixture
def noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SHARDCLOCK_DATA_DIR", str(tmp_path / "postgres"))
    file = calls_file(tmp_path / "postgres")
    file.touch()
    return file


def call_until_it_ends(payload: object) -> tuple[Outcome, int]:
    """Call the handler as often as a worker would; return the outcome and the number of the last attempt."""
    for attempt in range(1, ATTEMPTS_MAX):
        outcome = call(release_goods, payload, timer_key=7, attempt=attempt)
        if outcome == Completed():
            return outcome, attempt
    return call(release_goods, payload, timer_key=7, attempt=ATTEMPTS_MAX), ATTEMPTS_MAX


@pytest.mark.parametrize(
    "payload", [{"warehouse": OPEN}, {"warehouse": BUSY}, {"warehouse": CLOSED}, {"warehouse": [1]}, [1], None], ids=str
)
def test_a_call_has_the_outcome_that_its_payload_requests(noted: Path, payload: object) -> None:
    outcome, attempt = call_until_it_ends(payload)

    expected = expected_end(None if payload is None else json.dumps(payload))
    assert ("DELIVERED" if outcome == Completed() else "DEAD", attempt) == expected
    assert [(it.timer_key, it.attempt) for it in read_calls(noted)] == [(7, n) for n in range(1, attempt + 1)]


def test_the_example_has_each_possible_end() -> None:
    timers = [NewTimer.from_line(line) for line in example_lines()]
    ends = [expected_end(timer.payload) for timer in timers if timer.target == TARGET]

    assert {timer.target for timer in timers} == {"log", TARGET}
    assert [ends.count(EXPECTED[it]) for it in (OPEN, BUSY, CLOSED)] == [978, 20, 2]


def test_the_demo_s_app_is_found_like_a_user_s_app(tmp_path: Path) -> None:
    app = find_app(APP, tmp_path)

    assert [handler.target for handler in app.handlers] == [TARGET]
    assert app.handlers[0].policy.max_attempts == ATTEMPTS_MAX


def test_calls_are_read_in_the_order_of_their_notes(noted: Path) -> None:
    for attempt in (1, 2, 3):
        note_call(42, attempt)

    calls = read_calls(noted)
    assert [(it.timer_key, it.attempt) for it in calls] == [(42, 1), (42, 2), (42, 3)]
    assert calls == sorted(calls, key=lambda it: it.began_s)


def test_no_call_is_noted_without_a_running_demo(noted: Path) -> None:
    noted.unlink()

    with pytest.raises(FileNotFoundError):
        note_call(42, 1)
    assert not noted.exists()
