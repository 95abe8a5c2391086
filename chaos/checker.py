"""Judge a history: is every promise kept, by what was recorded alone?"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias

from chaos.history import DeliveryDeleted, DeliveryWritten, History, Pending, Recorded
from chaos.lives import Run, Step, follow
from chaos.promises import PROMISES, Promise

Status: TypeAlias = Literal["valid", "invalid", "unknown"]

SHOWN = 10
# What every run must put to the test; a run without a case of one of these has proved too little.
EXERCISED = frozenset({"S1", "S2", "S3", "S8", "S9", "S10", "D1", "L2", "L3", "L4"})
PROCESSES = frozenset({"P1", "P2", "P3", "P4", "P5", "P6"})  # and a run with processes to these


@dataclass(frozen=True, slots=True)
class Finding:
    """What one promise came to: how many things were checked, how many broke it, and the first that did, readable.

    `note` says why nothing was checked; empty otherwise.
    """

    promise: str
    title: str
    cases: int
    violations: int
    shown: Sequence[str] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a history came to. `findings` has one for each promise, in order; `reasons` say why it isn't valid."""

    status: Status
    findings: Sequence[Finding]
    reasons: Sequence[str] = ()


def judge(history: History, *, exercised: Collection[str] = EXERCISED, run: Run | None = None) -> Verdict:
    """Hold a history against every promise.

    invalid: a promise is broken; unknown: nothing fired, too little was broken, the recording has holes, or a promise
    of `exercised` has no case; else valid.

    shape:   `run` is the same history if it has been followed already
    """
    run = run or follow(history)
    findings = [_find(promise, run) for promise in PROMISES]
    broken = [f"{it.promise} {it.title}: {it.violations:,} of {it.cases:,}" for it in findings if it.violations]
    doubts = [
        *_holes(run),
        *_too_little(run),
        *(f"{it.promise} has no case" for it in findings if it.promise in exercised and not it.cases),
    ]
    if not run.firings:
        doubts.insert(0, "nothing fired")
    status: Status = "invalid" if broken else "unknown" if doubts else "valid"
    return Verdict(status, findings, [*broken, *doubts])


def _find(promise: Promise, run: Run) -> Finding:
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


def _too_little(run: Run) -> Iterator[str]:
    """Say what there was less of than a run of its length must have."""
    faults, bounds = run.history.faults, run.history.bounds
    for what, count, least in (
        ("kills", sum(fault.name.startswith("kill") for fault in faults), bounds.kills_min),
        ("freezes", sum(fault.kind == "freeze" for fault in faults), bounds.freezes_min),
        ("cuts", sum(fault.kind == "cut" for fault in faults), bounds.cuts_min),
        ("firings", len(run.firings), bounds.fires_min),
        ("calls of handlers", len(run.history.attempts), bounds.attempts_min),
        ("instances", len(run.processes.instances), bounds.instances_min),
    ):
        if count < least:
            yield f"only {count:,} of {least:,} {what}"


def _holes(run: Run) -> Iterator[str]:
    """Say where the recording contradicts itself, as no product's fault could make it: Postgres didn't do that."""
    if run.torn:
        yield f"the recording is torn: {run.torn[0]} ({len(run.torn):,} such)"
    commits = run.history.commits
    if any(late.lsn <= early.lsn for early, late in pairwise(commits)):
        yield "the recording is out of order: a commit's lsn is not above the one before it"
    yield from _strangers(run)
    yield from _unheard(run)
    yield from _unseen(run)
    told = {it.timer_key: it for it in run.history.pending}
    left = {life.timer_key: life.row for life in run.lives.values() if life.pending and life.row is not None}
    if wrong := sorted(told.keys() ^ left.keys()):
        where = "in the table" if wrong[0] in told else "in the commits"
        yield f"the recording is incomplete: timer {wrong[0]} is pending only {where} ({len(wrong):,} such)"
    moved = [key for key in told.keys() & left.keys() if not _agree(told[key], left[key].due_date, left[key].paused)]
    if moved:
        yield f"the recording is incomplete: timer {min(moved)} is pending in another way ({len(moved):,} such)"


def _strangers(run: Run) -> Iterator[str]:
    """Look for records that were read and never written."""
    written = {it.position for commit in run.history.commits for it in commit.changes if isinstance(it, Recorded)}
    if strange := {read.position for read in run.history.reads} - written:
        yield f"the recording is incomplete: {min(strange)} was read and is in no commit ({len(strange):,} such)"


def _agree(pending: Pending, due_date: object, paused: bool) -> bool:
    return pending.paused == paused and (paused or pending.due_date == due_date)


def _unheard(run: Run) -> Iterator[str]:
    """Look for calls that nobody wrote down, and for deliveries that the table has and the commits have not."""
    if run.deliveries and not run.history.attempts:
        yield "the recording is incomplete: there were deliveries, and no handler wrote down a call"
    left = {key for key, steps in run.deliveries.items() if _is_left(steps)}
    left |= {key for key, signal in run.processes.signals.items() if signal.sent is not None and signal.gone is None}
    if wrong := sorted(left ^ set(run.history.undelivered)):
        where = "in the commits" if wrong[0] in left else "in the table"
        told = f"the delivery of timer {wrong[0]} is left only {where}"
        yield f"the recording is incomplete: {told} ({len(wrong):,} such)"


def _unseen(run: Run) -> Iterator[str]:
    """Look for instances and tasks that the tables have and the commits have not, or the other way round."""
    seen = run.processes
    running = {key for key, life in seen.instances.items() if life.rows and life.ended is None}
    for what, left, told in (
        ("instance", running, run.history.running),
        ("task", {key for key, life in seen.tasks.items() if life.gone is None}, run.history.open_tasks),
    ):
        if wrong := sorted(left ^ set(told)):
            where = "in the commits" if wrong[0] in left else "in the table"
            yield f"the recording is incomplete: {what} {wrong[0]} is left only {where} ({len(wrong):,} such)"


def _is_left(steps: Sequence[Step]) -> bool:
    changes = [change for _, change in steps if isinstance(change, DeliveryWritten | DeliveryDeleted)]
    return bool(changes) and isinstance(changes[-1], DeliveryWritten)
