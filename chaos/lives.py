"""A history told timer by timer: one pass over the commits, in their order, that makes all that the checks look at."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from chaos.history import (
    SIGNAL,
    Asked,
    Call,
    Change,
    DeliveryDeleted,
    DeliveryWritten,
    History,
    HolderWritten,
    Recorded,
    TimerDeleted,
    TimerWritten,
)
from chaos.instances import Processes

Step: TypeAlias = tuple[int, Change]  # which commit, by its place in the history, and what it changed
Schedule: TypeAlias = tuple[str, str]  # tenant and name
ENDINGS = ("TRIGGERED", "CANCELED", "SKIPPED")
DELIVERED = ("DELIVERED", "DISCARDED", "DEAD")  # how a delivery ends
REDRIVEN = "REDRIVEN"  # and how it begins again


@dataclass(slots=True)
class Life:
    """All that was committed of one timer, in commit order.

    `row` is the row as it was last left, also after it has gone; `ready` is the commit that gave it its due date.
    """

    timer_key: int
    steps: list[Step] = field(default_factory=list)
    row: TimerWritten | None = None
    born: int | None = None
    gone: int | None = None
    ready: int = 0

    @property
    def pending(self) -> bool:
        """Say whether its row is in the table at the end."""
        return self.born is not None and self.gone is None

    def records(self, *intents: str) -> list[tuple[int, Recorded]]:
        """List its records of these kinds, of all kinds if none is named."""
        return [
            (number, change)
            for number, change in self.steps
            if isinstance(change, Recorded) and (not intents or change.intent in intents)
        ]

    def endings(self) -> list[tuple[int, Recorded]]:
        """List the records that end it; a SKIPPED one counts what follows, unless it is of the timer's own number."""
        own = self.row.occurrence if self.row else None
        return [
            (number, record)
            for number, record in self.records(*ENDINGS)
            if record.intent != "SKIPPED" or own in (None, record.occurrence)
        ]


class Firing(NamedTuple):
    """One TRIGGERED record, with the row that it took; `ready_s` is when it was due and known to be."""

    number: int
    record: Recorded
    row: TimerWritten | None
    ready_s: float
    fired_s: float


class Presence(NamedTuple):
    """What a holder's row said from one commit on."""

    number: int
    committed_s: float
    row: HolderWritten


@dataclass(slots=True)
class Wanted:
    """What clients asked for under one key: the calls that did, and since when it is acknowledged (None: never)."""

    asked: Asked
    calls: list[Call]
    acknowledged_at: float | None = None

    @property
    def tenant_id(self) -> str:
        """Name the tenant that asked first."""
        return self.calls[0].tenant_id

    @property
    def name(self) -> str | None:
        """Name the timer as the product does: a schedule without a name is named by its key."""
        return self.asked.name or (f"schedule-{self.asked.timer_key}" if self.asked.rule else None)


@dataclass(slots=True)
class Run:
    """A history, and what it says of each timer, schedule, holder and key. `torn`: what no Postgres can have done.

    `holders` are those of shards. `deliveries` have, by timer, the firings with a target, and all that followed them;
    and service tasks, but no signals: these are in `processes`.
    """

    history: History
    committed_s: list[float] = field(default_factory=list)
    lives: dict[int, Life] = field(default_factory=dict)
    firings: list[Firing] = field(default_factory=list)
    schedules: defaultdict[Schedule, list[Step]] = field(default_factory=lambda: defaultdict(list))
    holders: defaultdict[int, list[Presence]] = field(default_factory=lambda: defaultdict(list))
    workers: defaultdict[int, list[Presence]] = field(default_factory=lambda: defaultdict(list))
    deliveries: defaultdict[int, list[Step]] = field(default_factory=lambda: defaultdict(list))
    names: defaultdict[Schedule, list[int]] = field(default_factory=lambda: defaultdict(list))
    wanted: dict[int, Wanted] = field(default_factory=dict)
    poisoned: set[int] = field(default_factory=set)
    processes: Processes = field(default_factory=Processes)
    torn: list[str] = field(default_factory=list)

    @property
    def clock_is_true(self) -> bool:
        """Say whether Postgres's clock was the rig's all along."""
        return not any(fault.kind == "clock" for fault in self.history.faults)

    def wanted_of(self, key: int, schedule: Schedule | None) -> Wanted | None:
        """Find what a client asked for of which a timer came: under its key, or as the schedule it belongs to."""
        if key in self.wanted or schedule is None:
            return self.wanted.get(key)
        return next((self.wanted[first] for first in self.names.get(schedule, ()) if first in self.wanted), None)


def follow(history: History) -> Run:
    """Tell a history timer by timer."""
    run = Run(history, poisoned=set(history.poisoned))
    for call in history.calls:
        _want(run, call)
    for number, commit in enumerate(history.commits):
        run.committed_s.append(commit.committed_at.timestamp())
        for change in commit.changes:
            if not run.processes.learn(number, change):
                _learn(run, number, change)
    run.torn += run.processes.torn
    return run


def is_free(run: Run, holder: int, number: int, *, snapshot_s: float) -> bool:
    """Say whether a holder's claims are free to others in a commit: it had ended, or was suspended when it looked.

    units:   `snapshot_s` is how old what the transaction saw may be: a suspension that has ended since then counts
    """
    told = run.holders.get(holder, [])
    latest = bisect_right(told, number, key=lambda presence: presence.number) - 1
    if latest >= 0 and told[latest].row.ended_at is not None:
        return True
    while latest >= 0:
        if told[latest].row.suspended_at is not None:
            return True
        if told[latest].committed_s < run.committed_s[number] - snapshot_s:
            return False
        latest -= 1
    return False


def has_ended(run: Run, worker: int, number: int) -> bool:
    """Say whether a worker had ended before a commit: from then on others may take what it had in hand."""
    return any(it.number < number and it.row.ended_at is not None for it in run.workers.get(worker, ()))


def commits_of(steps: list[Step]) -> Iterator[tuple[int, list[Change]]]:
    """Group steps by the commit that they were made in."""
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


def _learn(run: Run, number: int, change: Change) -> None:
    if isinstance(change, TimerWritten):
        _write(run, number, change)
    elif isinstance(change, Recorded):
        _record(run, number, change)
    elif isinstance(change, TimerDeleted):
        _delete(run, number, change)
    elif isinstance(change, HolderWritten) and change.role in ("shard", "worker"):
        told = run.holders if change.role == "shard" else run.workers
        told[change.holder].append(Presence(number, run.committed_s[number], change))
    elif isinstance(change, DeliveryWritten | DeliveryDeleted):
        run.deliveries[change.timer_key].append((number, change))


def _want(run: Run, call: Call) -> None:
    for asked in call.timers:
        wanted = run.wanted.setdefault(asked.timer_key, Wanted(asked, []))
        wanted.calls.append(call)
        if asked.poison:
            run.poisoned.add(asked.timer_key)
        if call.outcome == "ok" and call.ended_at is not None and asked.timer_key not in call.refused:
            earlier = wanted.acknowledged_at
            wanted.acknowledged_at = call.ended_at if earlier is None else min(earlier, call.ended_at)


def _life(run: Run, timer_key: int) -> Life:
    life = run.lives.get(timer_key)
    if life is None:
        life = run.lives[timer_key] = Life(timer_key)
    return life


def _write(run: Run, number: int, row: TimerWritten) -> None:
    life = _life(run, row.timer_key)
    life.steps.append((number, row))
    if row.new:
        if life.pending:
            run.torn.append(f"timer {row.timer_key} was inserted while it was there")
        life.born = number if life.born is None else life.born
        life.gone = None
        if row.name is not None:
            run.names[row.tenant_id, row.name].append(row.timer_key)
            if row.schedule is not None:
                run.schedules[row.tenant_id, row.name].append((number, row))
    elif not life.pending:
        run.torn.append(f"timer {row.timer_key} was updated while it was not there")
    if row.new or life.row is None or row.due_date != life.row.due_date or row.paused != life.row.paused:
        life.ready = number
    life.row = row


def _delete(run: Run, number: int, change: TimerDeleted) -> None:
    life = _life(run, change.timer_key)
    life.steps.append((number, change))
    if not life.pending:
        run.torn.append(f"timer {change.timer_key} was deleted while it was not there")
    life.gone = number


def _record(run: Run, number: int, record: Recorded) -> None:
    if record.intent in (*DELIVERED, REDRIVEN) or (
        record.intent == "TRIGGERED" and record.target not in ("log", SIGNAL)
    ):
        run.deliveries[record.timer_key].append((number, record))
    if record.intent in (*DELIVERED, REDRIVEN):
        return
    life = _life(run, record.timer_key)
    life.steps.append((number, record))
    if record.schedule is not None and record.name is not None and record.intent in ENDINGS:
        run.schedules[record.tenant_id, record.name].append((number, record))
    if record.intent == "TRIGGERED":
        ready_s = max(record.due_date.timestamp(), run.committed_s[life.ready] if life.row else 0.0)
        run.firings.append(Firing(number, record, life.row, ready_s, record.recorded_at.timestamp()))
