"""Prove that the page and the picture of a run agree with its history."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_args

import pytest

from chaos.checker import Finding, Verdict
from chaos.fault_marks import COLORS
from chaos.history import History, Pending
from chaos.history.calls import Call, HandlerCall
from chaos.history.changes import Commit, HolderWritten, Recorded, TimerDeleted, TimerWritten
from chaos.history.faults import Fault, FaultKind
from chaos.picture import draw
from chaos.report import calm, report, sure_below
from chaos.scripted.good_run import good

START = datetime(2026, 3, 1, tzinfo=UTC)
T = START.timestamp()
KEPT = Finding("S1", "never early", 250_000, 0)
VALID = Verdict("valid", [KEPT])
VERSIONS = {"Postgres": "18.4", "Ray": "2.60.0", "Python": "3.11.7", "cores": 2}


def history(*lags: tuple[float, float], faults: Sequence[Fault] = (), length_s: float = 120.0) -> History:
    """Make a run with timers; the keys are due seconds, the values are the lateness."""
    made = History(7, T, T + length_s, faults=list(faults))
    for key, (due_s, lag_s) in enumerate(lags, 1):
        due = START + timedelta(seconds=due_s)
        fired = due + timedelta(seconds=lag_s)
        timer = TimerWritten(True, key, due, "ada", None, None, 1, None, None, False)
        made.commits.append(Commit(key, key, START, (timer,)))
        record = _record(key, due, fired, "TRIGGERED")
        made.commits.append(Commit(1000 + key, 1000 + key, fired, (TimerDeleted(key), record)))
    return made


def fault(kind: FaultKind, at_s: float, *, for_s: float = 0.0, **more: Any) -> Fault:
    return Fault(int(at_s * 1000), kind, more.pop("name", f"{kind} it"), T + at_s, T + at_s + for_s, **more)


def page_of(tmp_path: Path, run: History, verdict: Verdict = VALID) -> str:
    return report(run, verdict, tmp_path, versions=VERSIONS, repeat="python -m chaos --seed 7").read_text()


def cells(page: str, first: str) -> list[str]:
    (row,) = [line for line in page.splitlines() if line.startswith(f"| {first} |")]
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]]


@pytest.mark.parametrize(
    ("cases", "shown"),
    [(0, ""), (3, ""), (4, "< 0.75"), (100, "< 0.03"), (3000, "< 0.001"), (250_000, "< 1.2e-5"), (299_999, "< 1.1e-5")],
)
def test_cases_without_a_violation_bound_the_rate(cases: int, shown: str) -> None:
    assert sure_below(cases) == shown


def test_the_page_has_the_versions_and_the_command_that_repeats_the_run(tmp_path: Path) -> None:
    page = page_of(tmp_path, history((1, 0.004)))
    assert page.startswith("# Run 7: valid\n\nseed 7 · 120 s · Postgres 18.4 · Ray 2.60.0 · Python 3.11.7 · cores 2\n")
    assert page.endswith("```console\n$ python -m chaos --seed 7\n```\n")
    assert "![Lag over time](lag.svg)" in page
    assert (tmp_path / "lag.svg").read_text().startswith("<svg")


def test_the_page_shows_an_upper_bound_of_a_kept_promises_failure_rate(tmp_path: Path) -> None:
    page = page_of(tmp_path, history((1, 0.004)))
    assert cells(page, "S1") == ["S1", "never early", "250,000", "0", "kept", "0 of 250,000, so < 1.2e-5", ""]


def test_a_promise_without_a_case_is_not_called_kept(tmp_path: Path) -> None:
    findings = [KEPT, Finding("S10", "deliveries", 0, 0, note="not | built")]
    page = page_of(tmp_path, history((1, 0.004)), Verdict("valid", findings))
    assert cells(page, "S10") == ["S10", "deliveries", "0", "0", "no case", "", "not \\| built"]


def test_an_invalid_run_shows_the_rows_that_break_a_promise(tmp_path: Path) -> None:
    rows = [f"timer {key} fired twice | by 1 and 2" for key in range(10)]
    findings = [KEPT, Finding("S3", "at most once", 40, 12, rows)]
    page = page_of(tmp_path, history((1, 0.004)), Verdict("invalid", findings, ["S3 is broken"]))
    assert page.startswith("# Run 7: invalid\n")
    assert cells(page, "S3")[2:6] == ["40", "12", "**12 BROKEN**", ""]
    assert "### S3 at most once: 12 violations, the first 10\n" in page
    assert [line for line in page.splitlines() if line.startswith("    timer")] == [f"    {row}" for row in rows]
    assert "### S1" not in page


def test_an_unknown_run_has_its_reasons(tmp_path: Path) -> None:
    page = page_of(tmp_path, history(), Verdict("unknown", [KEPT], ["nothing fired at all"]))
    assert page.startswith("# Run 7: unknown\n")
    assert "Why:\n\n- nothing fired at all\n" in page


def test_the_page_has_the_lag_of_the_whole_run_and_of_the_time_without_faults(tmp_path: Path) -> None:
    lags = [(n * 0.1, 0.002) for n in range(98)] + [(60.5, 1.5), (20.0, 0.02)]
    run = history(*lags, faults=[fault("kill", 60, recovers_within_s=2.0)])
    page = page_of(tmp_path, run)
    assert cells(page, "whole run") == ["whole run", "100", "2 ms", "20 ms", "1.5 s", ""]
    assert cells(page, "except during faults and recoveries")[1:] == ["99", "2 ms", "20 ms", "20 ms", "1 s"]


def test_only_timers_that_waited_in_no_window_are_calm() -> None:
    run = history(faults=[fault("store", 10, for_s=3, recovers_within_s=5.0), fault("kill", 11, recovers_within_s=1.0)])
    fired = [(T + 9.9, 1.0), (T + 10.5, 1.0), (T + 17.0, 2.0), (T + 18.5, 1.0), (T + 19.5, 1.0), (T + 30.0, 25.0)]
    assert calm(fired, run) == [1.0, 1.0]
    assert calm(fired, history()) == [lag_s for _, lag_s in fired]


def test_the_page_counts_the_ends_of_timers(tmp_path: Path) -> None:
    run = history((1, 0.004), (2, 0.004), (3, 0.004))
    late = START + timedelta(seconds=9)
    next_one = TimerWritten(True, 50, late, "ada", "rule", "R/PT1S", 2, None, None, False)
    claim = TimerWritten(False, 50, late, "ada", "rule", "R/PT1S", 2, 9, late, False)
    ends = [_record(60 + n, late, late, intent) for n, intent in enumerate(["CANCELED", "RESCHEDULED", "PAUSED"])]
    run.commits.append(Commit(5000, 5000, late, (next_one, claim, *ends)))
    run.pending = [Pending(50, late, False)]
    assert (
        "Timers: 3 scheduled, 1 next occurrences, 3 fired, 1 cancelled, 1 rescheduled, 0 skipped, 1 paused;"
        " 1 pending at the end." in page_of(tmp_path, run)
    )


def test_the_page_has_the_calls_of_deliveries_and_the_delay_of_the_first(tmp_path: Path) -> None:
    run = history((1, 0.004))
    due = START + timedelta(seconds=2)
    fired = _record(9, due, due, "TRIGGERED")._replace(target="chaos.async")
    run.commits.append(Commit(5000, 5000, due, (fired,)))
    call = HandlerCall(9, "chaos.async", "ada", 1, 1, "00", T + 2.25, 77)
    run.attempts = [call, call._replace(began_at=T + 2.02), call._replace(attempt=2, began_at=T + 4)]

    assert (
        "Deliveries: 1, with 3 calls, of which 1 were repeated under the same attempt;"
        " from firing to the first call p50 20 ms, p99 20 ms, at most 20 ms." in page_of(tmp_path, run)
    )
    assert "Deliveries: 0, with 0 calls, of which 0 were repeated under the same attempt.\n" in page_of(
        tmp_path, history((1, 0.004))
    )


def test_the_page_counts_instances_by_end_and_has_the_delay_of_their_signals(tmp_path: Path) -> None:
    assert (
        "Processes: 3 instances, 2 completed, 1 canceled; 9 signals, of which 2 were stale;"
        " from sending to taking p50 15 ms, p99 40 ms, at most 40 ms." in page_of(tmp_path, good().end())
    )
    assert "Processes: none.\n" in page_of(tmp_path, history((1, 0.004)))


def test_calls_are_counted_by_verb_and_outcome(tmp_path: Path) -> None:
    run = history((1, 0.004))
    run.calls = [
        Call(1, "schedule", "ada", T, T + 1, "ok"),
        Call(2, "schedule", "ada", T, T + 1, "unknown"),
        Call(3, "schedule", "ada", T, None, "unknown"),
        Call(4, "cancel", "ada", T, T + 1, "fail"),
    ]
    page = page_of(tmp_path, run)
    assert cells(page, "calls") == ["calls", "ok", "fail", "unknown", "no answer"]
    assert cells(page, "schedule") == ["schedule", "1", "0", "1", "1"]
    assert cells(page, "cancel") == ["cancel", "0", "1", "0", "0"]


def test_the_page_has_the_recovery_time_of_each_fault(tmp_path: Path) -> None:
    kills = [fault("kill", at_s, name="kill a shard", victims=(5,), recovers_within_s=2.0) for at_s in (10, 60)]
    store = fault("store", 90, for_s=2.0, name="kill Postgres", recovers_within_s=5.0)
    head = fault("head", 110, name="kill the head", recovers_within_s=2.0)
    run = history((10.5, 0.9), (60.5, 2.4), (91, 1.5), (92.1, 1.2), (110.9, 0.1), faults=[*kills, store, head])
    keeps_all = HolderWritten(5, 0, 1, 4711, START, None, None)
    run.commits.insert(0, Commit(0, 0, START, (keeps_all,)))
    page = page_of(tmp_path, run)
    late = "**1 LATE**"
    rows = [line for line in page.splitlines() if "until" in line or re.match(r"\| (kill|store|head): ", line)]
    assert [[cell.strip() for cell in row.split("|")[1:-1]] for row in rows] == [
        ["fault", "times", "time until", "measured", "p50", "p99", "max", "bound", ""],
        [
            "kill: kill a shard",
            "2",
            "the shard's last timer fired",
            "2",
            "900 ms",
            "2.4 s",
            "2.4 s",
            "2 s",
            late,
        ],
        ["store: kill Postgres", "1", "a timer fired", "1", "500 ms", "500 ms", "500 ms", "5 s", ""],
        ["store: kill Postgres", "1", "no timer was late", "1", "1.3 s", "1.3 s", "1.3 s", "6 s", ""],
        ["head: kill the head", "1", "a timer fired", "1", "1 s", "1 s", "1 s", "2 s", ""],
        ["head: kill the head", "1", "no timer was late", "1", "0 s", "0 s", "0 s", "3 s", ""],
    ]


def test_a_fault_without_a_measurement_is_also_counted(tmp_path: Path) -> None:
    run = history((1, 0.004), faults=[fault("lock", 10), fault("lock", 20, disturbs=False)])
    assert cells(page_of(tmp_path, run), "lock: lock it") == ["lock: lock it", "2", *[""] * 7]


def test_every_kind_of_fault_has_a_colour_of_its_own() -> None:
    assert set(COLORS) == set(get_args(FaultKind))
    assert len({*COLORS.values()}) == len(COLORS)


def test_early_firings_and_due_dates_outside_the_run_do_not_break_the_picture() -> None:
    lags = [(T + 5, -2.0), (T - 50, 0.0), (T + 6, 4000.0)]
    ET.fromstring(draw(history(length_s=0.0), lags, "a title with <signs> & such"))


def _record(key: int, due: datetime, recorded_at: datetime, intent: str) -> Recorded:
    return Recorded(key, recorded_at, key, "ada", None, due, 1, intent, 5, None, None, None)
