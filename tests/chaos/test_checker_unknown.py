"""Prove that the verdict on a run with too few cases, or with a contradictory recording, is "unknown"."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from chaos.checker import EXERCISED, judge
from chaos.history import History
from chaos.history.changes import Recorded, TimerDeleted
from chaos.scripted.good_run import good
from chaos.scripted.run import at, blank


@pytest.mark.parametrize(
    ("least", "why"),
    [
        ({"kills_min": 2}, "only 1 of 2 kills"),
        ({"freezes_min": 2}, "only 1 of 2 freezes"),
        ({"cuts_min": 1}, "only 0 of 1 cuts"),
        ({"fires_min": 24}, "only 23 of 24 firings"),
        ({"attempts_min": 22}, "only 21 of 22 calls of handlers"),
        ({"instances_min": 4}, "only 3 of 4 instances"),
    ],
)
def test_a_run_with_too_few_faults_or_firings_is_unknown(least: dict[str, int], why: str) -> None:
    history = good().end()
    history.bounds = replace(history.bounds, **least)

    verdict = judge(history)

    assert (verdict.status, verdict.reasons) == ("unknown", [why])


def test_a_run_without_firings_is_unknown() -> None:
    verdict = judge(blank().end())

    assert verdict.status == "unknown"
    assert verdict.reasons[0] == "nothing fired"
    assert {f"{promise} has no case" for promise in EXERCISED} == set(verdict.reasons[1:])


def test_a_run_without_a_crash_of_the_store_leaves_d1_unknown() -> None:
    history = good().end()
    history.faults = [replace(fault, kind="lock") if fault.kind == "store" else fault for fault in history.faults]

    verdict = judge(history)

    assert (verdict.status, verdict.reasons) == ("unknown", ["D1 has no case"])
    assert judge(history, exercised={"S1"}).status == "valid"


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda h: h.pending.pop(), "incomplete: timer 900 is pending only in the commits (1 such)"),
        (lambda h: h.pending.append(h.pending[0]._replace(timer_key=5)), "timer 5 is pending only in the table"),
        (lambda h: h.pending.append(h.pending.pop()._replace(due_date=at(1_000))), "900 has another due date or pause"),
        (lambda h: h.commits.append(h.commits[-1]), "out of order"),
        (lambda h: h.commits.append(_later(h, TimerDeleted(7))), "timer 7 was deleted, and did not exist"),
        (lambda h: h.reads.append(h.reads[-1]._replace(position=999_999)), "999999 was read"),
    ],
    ids=["a row less", "a row more", "another date", "a commit twice", "a row before", "a stranger"],
)  # fmt: skip
def test_a_recording_that_contradicts_itself_is_unknown(spoil: Callable[[History], object], why: str) -> None:
    history = good().end()
    spoil(history)

    verdict = judge(history, exercised=())

    assert why in " ".join(verdict.reasons)
    assert verdict.status in {"unknown", "invalid"}


def test_a_run_with_an_incomplete_recording_is_unknown() -> None:
    history = good().end()
    history.pending.pop()

    assert judge(history).status == "unknown"


def _later(history: History, *changes: Recorded | TimerDeleted) -> object:
    last = history.commits[-1]
    return last._replace(lsn=last.lsn + 1, xid=last.xid + 1, changes=changes)
