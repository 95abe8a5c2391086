"""A history told instance by instance: what each instance of a process did, and what became of each signal and task."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from chaos.history import (
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
from chaos.models import Made

BEGIN, FIRED = "begin", "fired"
CLOSED = "closed"  # the kind of a signal that takes away what somebody had locked as its token went
STALE = "STALE"  # the record of a signal that came after its instance's end


class Passed(NamedTuple):
    """A token entered a node, left it, or was terminated there."""

    token: int
    node_id: str
    change: str


class Told(NamedTuple):
    """What a step says of a signal that it took; a stale one had no effect."""

    signal_key: int
    kind: str
    token: int | None
    node_id: str | None
    stale: bool


Step: TypeAlias = tuple[int, InstanceStepped]  # which commit, by its place in the history


@dataclass(slots=True)
class InstanceLife:
    """All that was committed of one instance, in commit order.

    `ended` is the commit that gave it its outcome; those in `closed` took away afterwards what somebody had locked.
    """

    instance_key: int
    rows: list[tuple[int, InstanceWritten]] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    made: list[tuple[int, Made]] = field(default_factory=list)
    incidents: list[IncidentRaised] = field(default_factory=list)
    closed: list[int] = field(default_factory=list)
    ended: int | None = None

    @property
    def row(self) -> InstanceWritten:
        """Return its row as it was last left."""
        return self.rows[-1][1]

    def passes(self) -> Iterator[Passed]:
        """Tell how its tokens went, in order."""
        for _, step in self.steps:
            yield from passes_of(step)

    def told(self) -> Iterator[Told]:
        """Tell which signals it took, in order."""
        for _, step in self.steps:
            yield from told_of(step)


@dataclass(slots=True)
class SignalLife:
    """What became of one signal: the commits that sent it, took it, recorded it as too late, and deleted it."""

    signal_key: int
    instance_key: int
    kind: str
    tenant_id: str = ""
    said: dict[str, Any] = field(default_factory=dict)
    sent: int | None = None
    gone: int | None = None
    taken: list[int] = field(default_factory=list)
    takers: set[int] = field(default_factory=set)
    spent: list[int] = field(default_factory=list)
    given_up: bool = False


@dataclass(slots=True)
class TaskLife:
    """What became of one task of a person."""

    row: TaskWritten
    made: int
    completed: int | None = None
    gone: int | None = None


@dataclass(slots=True)
class Processes:
    """All instances, signals and tasks. `torn`: what no Postgres can have done."""

    instances: dict[int, InstanceLife] = field(default_factory=dict)
    signals: dict[int, SignalLife] = field(default_factory=dict)
    tasks: dict[int, TaskLife] = field(default_factory=dict)
    jobs: dict[int, int] = field(default_factory=dict)  # the instance of each service task
    torn: list[str] = field(default_factory=list)

    def instance(self, key: int) -> InstanceLife:
        """Return the life of an instance, which may begin with this."""
        return self.instances.setdefault(key, InstanceLife(key))

    def learn(self, number: int, change: Change) -> bool:
        """Take in what one commit changed; say whether it is of a signal, and so of no timer and no handler."""
        if isinstance(change, InstanceWritten):
            self._write(number, change)
        elif isinstance(change, InstanceStepped):
            self.instance(change.instance_key).steps.append((number, change))
            for told in told_of(change):
                signal = self._signal(told.signal_key, change.instance_key, told.kind)
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
        life = self.instance(row.instance_key)
        if row.new == bool(life.rows):
            self.torn.append(f"instance {row.instance_key} was {'inserted' if row.new else 'updated'} out of turn")
        life.rows.append((number, row))
        if row.outcome is not None and life.ended is None:
            life.ended = number

    def _task(self, number: int, change: TaskWritten | TaskDeleted) -> None:
        life = self.tasks.get(change.task_key)
        if isinstance(change, TaskDeleted):
            if life is not None:
                life.gone = number
            return
        if life is None:
            life = self.tasks[change.task_key] = TaskLife(change, number)
            self._make(number, change.instance_key, "task", change.node_id)
        if change.completed and life.completed is None:
            life.completed = number

    def _deliver(self, number: int, change: Change) -> bool:
        if isinstance(change, DeliveryWritten):
            if change.new and change.job and change.instance_key is not None:
                self.jobs[change.timer_key] = change.instance_key
                self._make(number, change.instance_key, "job", change.node_id)
            if change.target == SIGNAL and change.new:
                said = json.loads(change.payload or "{}")
                key = change.timer_key if change.instance_key is None else change.instance_key
                signal = self._signal(change.timer_key, key, said.get("kind", FIRED))
                signal.sent, signal.said, signal.tenant_id = number, said, change.tenant_id
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
                return False  # its timer was cancelled, moved or the like
            return True
        return False

    def _signal(self, key: int, instance_key: int, kind: str) -> SignalLife:
        return self.signals.setdefault(key, SignalLife(key, instance_key, kind))

    def _make(self, number: int, instance_key: int, kind: str, node_id: str | None) -> None:
        self.instance(instance_key).made.append((number, Made(kind, node_id or "")))


def passes_of(step: InstanceStepped) -> list[Passed]:
    """Read how tokens went in one step."""
    return [Passed(*it) for it in json.loads(step.passes)]


def told_of(step: InstanceStepped) -> list[Told]:
    """Read which signals one step took."""
    return [
        Told(it["key"], it["kind"], it.get("token"), it.get("node"), bool(it.get("stale")))
        for it in json.loads(step.signals)
        if "key" in it  # an incident that the step has raised is no signal
    ]
