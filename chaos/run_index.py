"""Index a history by timer, schedule, holder and key, in one pass over the commits."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from chaos.history import History
from chaos.history.calls import Call, TimerRequest
from chaos.history.changes import (
    SIGNAL,
    Change,
    DeliveryDeleted,
    DeliveryWritten,
    HolderWritten,
    LeaderWritten,
    Recorded,
    TimerDeleted,
    TimerWritten,
)
from chaos.process_index import ProcessIndex

NumberedChange: TypeAlias = tuple[int, Change]  # The commit's index in the history, and the change.
Schedule: TypeAlias = tuple[str, str]  # Tenant and name.
ENDINGS = ("TRIGGERED", "CANCELED", "SKIPPED")
DELIVERED = ("DELIVERED", "DISCARDED", "DEAD")  # The intents of the records that end a delivery.
REDRIVEN = "REDRIVEN"  # The intent of a record about a dead letter that is delivered again.


@dataclass(slots=True)
class TimerHistory:
    """All commits of one timer, in commit order.

    `row` is the timer's last row, even after its deletion; `ready` is the commit that set the due date.
    """

    timer_key: int
    steps: list[NumberedChange] = field(default_factory=list)
    row: TimerWritten | None = None
    inserted: int | None = None
    deleted: int | None = None
    ready: int = 0

    @property
    def pending(self) -> bool:
        """Return whether the timer's row is in the table at the end."""
        return self.inserted is not None and self.deleted is None

    def records(self, *intents: str) -> list[tuple[int, Recorded]]:
        """List the timer's records with the given intents; without intents, list all records."""
        return [
            (number, change)
            for number, change in self.steps
            if isinstance(change, Recorded) and (not intents or change.intent in intents)
        ]

    def endings(self) -> list[tuple[int, Recorded]]:
        """List the records that end the timer.

        A SKIPPED record counts only if it has the number of this occurrence; otherwise it belongs to later occurrences.
        """
        own = self.row.occurrence if self.row else None
        return [
            (number, record)
            for number, record in self.records(*ENDINGS)
            if record.intent != "SKIPPED" or own in (None, record.occurrence)
        ]


class Firing(NamedTuple):
    """One TRIGGERED record, with the row that the firing deleted.

    `ready_s` is the due date, or the time of the commit that set the due date if this commit is later.
    """

    number: int
    record: Recorded
    row: TimerWritten | None
    ready_s: float
    fired_s: float


class HolderState(NamedTuple):
    """The row of a holder after a commit."""

    number: int
    committed_s: float
    row: HolderWritten


class LeadState(NamedTuple):
    """The coordinator that leads after a commit, or None while an operator transfers the lead."""

    committed_s: float
    leader: int | None


@dataclass(slots=True)
class RequestHistory:
    """The calls that requested one key; `acknowledged_at` is None without an acknowledgement."""

    timer: TimerRequest
    calls: list[Call]
    acknowledged_at: float | None = None

    @property
    def tenant_id(self) -> str:
        """Return the tenant of the first call."""
        return self.calls[0].tenant_id

    @property
    def name(self) -> str | None:
        """Return the timer's name in the product: a schedule without a name is named by its key."""
        return self.timer.name or (f"schedule-{self.timer.timer_key}" if self.timer.rule else None)


@dataclass(slots=True)
class RunIndex:
    """Index a history by timer, schedule, holder and key. `torn` lists contradictions that Postgres can't have caused.

    `holders` has the holders of shards. `deliveries` maps a timer with a target to its firing and to all changes of its
    delivery. `deliveries` also contains the service tasks. `processes` has the signals.
    """

    history: History
    committed_s: list[float] = field(default_factory=list)
    timers: dict[int, TimerHistory] = field(default_factory=dict)
    firings: list[Firing] = field(default_factory=list)
    schedules: defaultdict[Schedule, list[NumberedChange]] = field(default_factory=lambda: defaultdict(list))
    holders: defaultdict[int, list[HolderState]] = field(default_factory=lambda: defaultdict(list))
    leads: list[LeadState] = field(default_factory=list)
    workers: defaultdict[int, list[HolderState]] = field(default_factory=lambda: defaultdict(list))
    deliveries: defaultdict[int, list[NumberedChange]] = field(default_factory=lambda: defaultdict(list))
    names: defaultdict[Schedule, list[int]] = field(default_factory=lambda: defaultdict(list))
    requests: dict[int, RequestHistory] = field(default_factory=dict)
    poisoned: set[int] = field(default_factory=set)
    processes: ProcessIndex = field(default_factory=ProcessIndex)
    torn: list[str] = field(default_factory=list)

    @property
    def clock_is_true(self) -> bool:
        """Return whether Postgres's clock always agreed with the rig's clock."""
        return not any(fault.kind == "clock" for fault in self.history.faults)

    def request_of(self, key: int, schedule: Schedule | None) -> RequestHistory | None:
        """Find the request for a timer, by the timer's key or by its schedule."""
        if key in self.requests or schedule is None:
            return self.requests.get(key)
        return next((self.requests[first] for first in self.names.get(schedule, ()) if first in self.requests), None)


def index_run(history: History) -> RunIndex:
    """Index a history."""
    run = RunIndex(history, poisoned=set(history.poisoned))
    for call in history.calls:
        _want(run, call)
    for number, commit in enumerate(history.commits):
        run.committed_s.append(commit.committed_at.timestamp())
        for change in commit.changes:
            if not run.processes.learn(number, change):
                _learn(run, number, change)
    run.torn += run.processes.torn
    return run


def is_free(run: RunIndex, holder: int, number: int, *, snapshot_s: float) -> bool:
    """Return whether a holder had ended or was suspended at a commit, so that other holders may claim its rows.

    units:   `snapshot_s` is the maximum age of the transaction's snapshot; a suspension that ended after the snapshot
             also counts
    """
    states = run.holders.get(holder, [])
    latest = bisect_right(states, number, key=lambda state: state.number) - 1
    if latest >= 0 and states[latest].row.ended_at is not None:
        return True
    while latest >= 0:
        if states[latest].row.suspended_at is not None:
            return True
        if states[latest].committed_s < run.committed_s[number] - snapshot_s:
            return False
        latest -= 1
    return False


def has_ended(run: RunIndex, worker: int, number: int) -> bool:
    """Return whether a worker had ended before a commit, so that other workers may claim its deliveries."""
    return any(it.number < number and it.row.ended_at is not None for it in run.workers.get(worker, ()))


def commits_of(steps: list[NumberedChange]) -> Iterator[tuple[int, list[Change]]]:
    """Group changes by their commit."""
    last: int | None = None
    changes: list[Change] = []
    for number, change in steps:
        if number != last and last is not None:
            yield last, changes
            changes = []
        last = number
        changes.append(change)
    if last is not None:
        yield last, changes


def _learn(run: RunIndex, number: int, change: Change) -> None:
    if isinstance(change, TimerWritten):
        _write(run, number, change)
    elif isinstance(change, Recorded):
        _record(run, number, change)
    elif isinstance(change, TimerDeleted):
        _delete(run, number, change)
    elif isinstance(change, HolderWritten) and change.role in ("shard", "worker"):
        states = run.holders if change.role == "shard" else run.workers
        states[change.holder].append(HolderState(number, run.committed_s[number], change))
    elif isinstance(change, LeaderWritten):
        run.leads.append(LeadState(run.committed_s[number], change.leader))
    elif isinstance(change, DeliveryWritten | DeliveryDeleted):
        run.deliveries[change.timer_key].append((number, change))


def _want(run: RunIndex, call: Call) -> None:
    for timer in call.timers:
        request = run.requests.setdefault(timer.timer_key, RequestHistory(timer, []))
        request.calls.append(call)
        if timer.poison:
            run.poisoned.add(timer.timer_key)
        if call.outcome == "ok" and call.ended_at is not None and timer.timer_key not in call.refused:
            earlier = request.acknowledged_at
            request.acknowledged_at = call.ended_at if earlier is None else min(earlier, call.ended_at)


def _timer(run: RunIndex, timer_key: int) -> TimerHistory:
    timer = run.timers.get(timer_key)
    if timer is None:
        timer = run.timers[timer_key] = TimerHistory(timer_key)
    return timer


def _write(run: RunIndex, number: int, row: TimerWritten) -> None:
    timer = _timer(run, row.timer_key)
    timer.steps.append((number, row))
    if row.new:
        if timer.pending:
            run.torn.append(f"timer {row.timer_key} was inserted, and existed already")
        timer.inserted = number if timer.inserted is None else timer.inserted
        timer.deleted = None
        if row.name is not None:
            run.names[row.tenant_id, row.name].append(row.timer_key)
            if row.schedule is not None:
                run.schedules[row.tenant_id, row.name].append((number, row))
    elif not timer.pending:
        run.torn.append(f"timer {row.timer_key} was updated, and did not exist")
    if row.new or timer.row is None or row.due_date != timer.row.due_date or row.paused != timer.row.paused:
        timer.ready = number
    timer.row = row


def _delete(run: RunIndex, number: int, change: TimerDeleted) -> None:
    timer = _timer(run, change.timer_key)
    timer.steps.append((number, change))
    if not timer.pending:
        run.torn.append(f"timer {change.timer_key} was deleted, and did not exist")
    timer.deleted = number


def _record(run: RunIndex, number: int, record: Recorded) -> None:
    if record.intent in (*DELIVERED, REDRIVEN) or (
        record.intent == "TRIGGERED" and record.target not in ("log", SIGNAL)
    ):
        run.deliveries[record.timer_key].append((number, record))
    if record.intent in (*DELIVERED, REDRIVEN):
        return
    timer = _timer(run, record.timer_key)
    timer.steps.append((number, record))
    if record.schedule is not None and record.name is not None and record.intent in ENDINGS:
        run.schedules[record.tenant_id, record.name].append((number, record))
    if record.intent == "TRIGGERED":
        ready_s = max(record.due_date.timestamp(), run.committed_s[timer.ready] if timer.row else 0.0)
        run.firings.append(Firing(number, record, timer.row, ready_s, record.recorded_at.timestamp()))
