"""Check each promise against a history, with only the recorded rows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias

from chaos.history import History, Pending
from chaos.history.changes import DeliveryDeleted, DeliveryWritten, Recorded
from chaos.promises import PROMISES, Promise
from chaos.run_index import NumberedChange, RunIndex, index_run

Status: TypeAlias = Literal["valid", "invalid", "unknown"]

SHOWN = 10
# Promises that must have cases in each run; otherwise the verdict is unknown.
EXERCISED = frozenset({"S1", "S2", "S3", "S8", "S9", "S10", "D1", "L2", "L3", "L4"})
# Promises that must also have cases in a run with processes.
PROCESSES = frozenset({"P1", "P2", "P3", "P4", "P5", "P6"})


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one promise: the number of cases and violations, and the first violations as text.

    `note` has the reason why a check has no cases; otherwise it is empty.
    """

    promise: str
    title: str
    cases: int
    violations: int
    shown: Sequence[str] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on a history: one finding for each promise, in order, and the reasons against "valid"."""

    status: Status
    findings: Sequence[Finding]
    reasons: Sequence[str] = ()


def judge(history: History, *, exercised: Collection[str] = EXERCISED, run: RunIndex | None = None) -> Verdict:
    """Check a history against every promise.

    `invalid`: a promise is broken. `unknown`: no promise is broken, but nothing fired, there were too few events, the
    recording is incomplete or contradicts itself, or a promise in `exercised` has no case. `valid`: every other
    history.

    shape:   `run` is the index of this history, if the caller has built it already
    """
    run = run or index_run(history)
    findings = [_find(promise, run) for promise in PROMISES]
    broken = [f"{it.promise} {it.title}: {it.violations:,} of {it.cases:,}" for it in findings if it.violations]
    doubts = [
        *_contradictions(run),
        *_missing_cases(run),
        *(f"{it.promise} has no case" for it in findings if it.promise in exercised and not it.cases),
    ]
    if not run.firings:
        doubts.insert(0, "nothing fired")
    status: Status = "invalid" if broken else "unknown" if doubts else "valid"
    return Verdict(status, findings, [*broken, *doubts])


def _find(promise: Promise, run: RunIndex) -> Finding:
    if promise.check is None:
        return Finding(promise.promise, promise.title, 0, 0, note="not built")
    cases = violations = 0
    shown: list[str] = []
    for line in promise.check(run):
        cases += 1
        if line is not None:
            violations += 1
            if len(shown) < SHOWN:
                shown.append(line)
    return Finding(promise.promise, promise.title, cases, violations, shown, "" if cases else "no case")


def _missing_cases(run: RunIndex) -> Iterator[str]:
    """Report the kinds of events of which the run has too few: kills, freezes, cuts, firings, calls and instances."""
    faults, bounds = run.history.faults, run.history.bounds
    for noun, count, least in (
        ("kills", sum(fault.name.startswith("kill") for fault in faults), bounds.kills_min),
        ("freezes", sum(fault.kind == "freeze" for fault in faults), bounds.freezes_min),
        ("cuts", sum(fault.kind == "cut" for fault in faults), bounds.cuts_min),
        ("firings", len(run.firings), bounds.fires_min),
        ("calls of handlers", len(run.history.attempts), bounds.attempts_min),
        ("instances", len(run.processes.instances), bounds.instances_min),
    ):
        if count < least:
            yield f"only {count:,} of {least:,} {noun}"


def _contradictions(run: RunIndex) -> Iterator[str]:
    """Report contradictions in the recording itself; no defect of the product can cause them."""
    if run.torn:
        yield f"the recording contradicts itself: {run.torn[0]} ({len(run.torn):,} such)"
    commits = run.history.commits
    if any(late.lsn <= early.lsn for early, late in pairwise(commits)):
        yield "the recording is out of order: the LSN of a commit is not above the LSN of the previous commit"
    yield from _unwritten_records(run)
    yield from _missing_deliveries(run)
    yield from _missing_instances(run)
    told = {it.timer_key: it for it in run.history.pending}
    left = {timer.timer_key: timer.row for timer in run.timers.values() if timer.pending and timer.row is not None}
    if wrong := sorted(told.keys() ^ left.keys()):
        where = "in the table" if wrong[0] in told else "in the commits"
        yield f"the recording is incomplete: timer {wrong[0]} is pending only {where} ({len(wrong):,} such)"
    moved = [key for key in told.keys() & left.keys() if not _agree(told[key], left[key].due_date, left[key].paused)]
    if moved:
        yield (
            "the recording is incomplete: "
            f"timer {min(moved)} has another due date or pause in the table than in the commits ({len(moved):,} such)"
        )


def _unwritten_records(run: RunIndex) -> Iterator[str]:
    """Report log records that a reader read, but that no commit contains."""
    written = {it.position for commit in run.history.commits for it in commit.changes if isinstance(it, Recorded)}
    if strange := {read.position for read in run.history.reads} - written:
        yield f"the recording is incomplete: {min(strange)} was read, and no commit contains it ({len(strange):,} such)"


def _agree(pending: Pending, due_date: object, paused: bool) -> bool:
    return pending.paused == paused and (paused or pending.due_date == due_date)


def _missing_deliveries(run: RunIndex) -> Iterator[str]:
    """Report calls that the app's file lacks, and deliveries that are only in the table or only in the commits."""
    if run.deliveries and not run.history.attempts:
        yield "the recording is incomplete: there were deliveries, and no handler recorded a call"
    left = {key for key, steps in run.deliveries.items() if _is_left(steps)}
    left |= {key for key, signal in run.processes.signals.items() if signal.sent is not None and signal.gone is None}
    if wrong := sorted(left ^ set(run.history.undelivered)):
        where = "in the commits" if wrong[0] in left else "in the table"
        told = f"the delivery of timer {wrong[0]} is left only {where}"
        yield f"the recording is incomplete: {told} ({len(wrong):,} such)"


def _missing_instances(run: RunIndex) -> Iterator[str]:
    """Report instances and tasks that are only in the tables or only in the commits."""
    seen = run.processes
    running = {key for key, it in seen.instances.items() if it.rows and it.ended is None}
    for noun, left, told in (
        ("instance", running, run.history.running),
        ("task", {key for key, it in seen.tasks.items() if it.gone is None}, run.history.open_tasks),
    ):
        if wrong := sorted(left ^ set(told)):
            where = "in the commits" if wrong[0] in left else "in the table"
            yield f"the recording is incomplete: {noun} {wrong[0]} is left only {where} ({len(wrong):,} such)"


def _is_left(steps: Sequence[NumberedChange]) -> bool:
    changes = [change for _, change in steps if isinstance(change, DeliveryWritten | DeliveryDeleted)]
    return bool(changes) and isinstance(changes[-1], DeliveryWritten)
