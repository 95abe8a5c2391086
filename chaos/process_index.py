"""Group a history by process instance, signal and task."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from chaos.history.changes import (
    SIGNAL,
    Change,
    DeliveryDeleted,
    DeliveryWritten,
    IncidentRaised,
    InstanceStepped,
    InstanceWritten,
    Recorded,
    TaskDeleted,
    TaskWritten,
    TimerWritten,
)
from chaos.process_models import NodeItem

BEGIN, FIRED = "begin", "fired"
# The kind of a signal that removes rows of a terminated token, if these rows were locked at the termination.
CLOSED = "closed"
STALE = "STALE"  # The record of a signal that arrived after the end of its instance.


class TokenMove(NamedTuple):
    """A move of a token: it entered a node, left the node, or was terminated at the node."""

    token: int
    node_id: str
    change: str


class TakenSignal(NamedTuple):
    """A signal in the record of the step that took it; a stale signal had no effect."""

    signal_key: int
    kind: str
    token: int | None
    node_id: str | None
    stale: bool


NumberedStep: TypeAlias = tuple[int, InstanceStepped]  # The index of the commit in the history.


@dataclass(slots=True)
class InstanceHistory:
    """All commits of one instance, in commit order.

    `ended` is the commit that wrote the outcome. The commits in `closed` removed the rows that were locked at the end
    of the instance.
    """

    instance_key: int
    rows: list[tuple[int, InstanceWritten]] = field(default_factory=list)
    steps: list[NumberedStep] = field(default_factory=list)
    created: list[tuple[int, NodeItem]] = field(default_factory=list)
    incidents: list[IncidentRaised] = field(default_factory=list)
    closed: list[int] = field(default_factory=list)
    ended: int | None = None

    @property
    def row(self) -> InstanceWritten:
        """Return the instance's last row."""
        return self.rows[-1][1]

    def moves(self) -> Iterator[TokenMove]:
        """Yield the moves of the instance's tokens, in order."""
        for _, step in self.steps:
            yield from moves_of(step)

    def signals(self) -> Iterator[TakenSignal]:
        """Yield the signals that the instance took, in order."""
        for _, step in self.steps:
            yield from signals_of(step)


@dataclass(slots=True)
class SignalHistory:
    """The commits about one signal: it was sent, taken by a step, recorded as too late, or deleted."""

    signal_key: int
    instance_key: int
    kind: str
    tenant_id: str = ""
    payload: dict[str, Any] = field(default_factory=dict)
    sent: int | None = None
    gone: int | None = None
    taken: list[int] = field(default_factory=list)
    takers: set[int] = field(default_factory=set)
    spent: list[int] = field(default_factory=list)
    given_up: bool = False


@dataclass(slots=True)
class TaskHistory:
    """The commits of one user task."""

    row: TaskWritten
    made: int
    completed: int | None = None
    gone: int | None = None


@dataclass(slots=True)
class ProcessIndex:
    """All instances, signals and tasks of a run. `torn` lists contradictions that Postgres can't have caused."""

    instances: dict[int, InstanceHistory] = field(default_factory=dict)
    signals: dict[int, SignalHistory] = field(default_factory=dict)
    tasks: dict[int, TaskHistory] = field(default_factory=dict)
    jobs: dict[int, int] = field(default_factory=dict)  # Maps each service task to its instance.
    torn: list[str] = field(default_factory=list)

    def instance(self, key: int) -> InstanceHistory:
        """Return the commits of an instance; create an empty record for a new instance."""
        return self.instances.setdefault(key, InstanceHistory(key))

    def learn(self, number: int, change: Change) -> bool:
        """Add one change.

        Return False if the change also belongs to a timer or to a delivery to a handler; the caller then indexes it,
        too.
        """
        if isinstance(change, InstanceWritten):
            self._write(number, change)
        elif isinstance(change, InstanceStepped):
            self.instance(change.instance_key).steps.append((number, change))
            for taken in signals_of(change):
                signal = self._signal(taken.signal_key, change.instance_key, taken.kind)
                signal.taken.append(number)
                signal.takers.add(change.instance_key)
        elif isinstance(change, TaskWritten | TaskDeleted):
            self._task(number, change)
        elif isinstance(change, IncidentRaised):
            self.instance(change.instance_key).incidents.append(change)
        elif isinstance(change, TimerWritten):
            if change.new and change.instance_key is not None:
                self._make(number, change.instance_key, "timer", change.node_id)
            return False
        else:
            return self._deliver(number, change)
        return True

    def _write(self, number: int, row: InstanceWritten) -> None:
        history = self.instance(row.instance_key)
        if row.new == bool(history.rows):
            self.torn.append(f"instance {row.instance_key} was {'inserted' if row.new else 'updated'} out of turn")
        history.rows.append((number, row))
        if row.outcome is not None and history.ended is None:
            history.ended = number

    def _task(self, number: int, change: TaskWritten | TaskDeleted) -> None:
        history = self.tasks.get(change.task_key)
        if isinstance(change, TaskDeleted):
            if history is not None:
                history.gone = number
            return
        if history is None:
            history = self.tasks[change.task_key] = TaskHistory(change, number)
            self._make(number, change.instance_key, "task", change.node_id)
        if change.completed and history.completed is None:
            history.completed = number

    def _deliver(self, number: int, change: Change) -> bool:
        if isinstance(change, DeliveryWritten):
            if change.new and change.job and change.instance_key is not None:
                self.jobs[change.timer_key] = change.instance_key
                self._make(number, change.instance_key, "job", change.node_id)
            if change.target == SIGNAL and change.new:
                payload = json.loads(change.payload or "{}")
                key = change.timer_key if change.instance_key is None else change.instance_key
                signal = self._signal(change.timer_key, key, payload.get("kind", FIRED))
                signal.sent, signal.payload, signal.tenant_id = number, payload, change.tenant_id
            return change.target == SIGNAL
        if isinstance(change, DeliveryDeleted) and change.timer_key in self.signals:
            self.signals[change.timer_key].gone = number
            return True
        if isinstance(change, Recorded) and change.target == SIGNAL and change.intent != "TRIGGERED":
            late = self.signals.get(change.timer_key)
            if change.intent == STALE and late is not None:
                late.spent.append(number)
                if late.kind == CLOSED:
                    self.instance(late.instance_key).closed.append(number)
            elif change.intent == "DEAD" and late is not None:
                late.given_up = True
            else:
                return False  # The timer was cancelled or moved.
            return True
        return False

    def _signal(self, key: int, instance_key: int, kind: str) -> SignalHistory:
        return self.signals.setdefault(key, SignalHistory(key, instance_key, kind))

    def _make(self, number: int, instance_key: int, kind: str, node_id: str | None) -> None:
        self.instance(instance_key).created.append((number, NodeItem(kind, node_id or "")))


def moves_of(step: InstanceStepped) -> list[TokenMove]:
    """Read the moves of tokens in one step."""
    return [TokenMove(*it) for it in json.loads(step.passes)]


def signals_of(step: InstanceStepped) -> list[TakenSignal]:
    """Read the signals that one step took."""
    return [
        TakenSignal(it["key"], it["kind"], it.get("token"), it.get("node"), bool(it.get("stale")))
        for it in json.loads(step.signals)
        if "key" in it  # An incident in the step's record is not a signal.
    ]
