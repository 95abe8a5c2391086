"""Collect the effects of one instance's steps, and convert the effects to rows.

A wait that opens and closes within one batch is never written.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime
from hashlib import sha256
from itertools import chain
from typing import Any, NamedTuple

from shardclock_server.bpmn.model import Definition, NodeKind
from shardclock_server.bpmn.model.definition import TimerKind
from shardclock_server.bpmn.step.effects import (
    ChildOpened,
    Effect,
    EscalationThrown,
    IncidentRaised,
    IncidentResolved,
    InstanceEnded,
    MessageOpened,
    Outcome,
    ServiceTaskOpened,
    SignalOpened,
    SignalThrown,
    TaskOpened,
    TimerOpened,
    TokenChanged,
    WaitClosed,
)
from shardclock_server.engine.inbox import CONTINUED
from shardclock_server.sql.processes.apply import Row, Writes
from shardclock_server.timers.duration import add_duration, parse_duration
from shardclock_server.timers.model import NAME_CHARS_MAX, TimerType
from shardclock_server.timers.moment import parse_due_date
from shardclock_server.timers.zone import UTC_ZONE, agreed_zone

# the limit of characters in all signals that an instance sends itself in one batch
TO_ITSELF_CHARS_MAX = 16 * 1_048_576
Opened = TimerOpened | MessageOpened | SignalOpened | ServiceTaskOpened | TaskOpened | ChildOpened
TIMER_TYPES = {NodeKind.BOUNDARY: TimerType.BOUNDARY, NodeKind.START: TimerType.START_EVENT}
# The kind of the signal from an ended instance to the call activity of its parent.
END_KINDS = {Outcome.COMPLETED: "completed", Outcome.ERROR: "error", Outcome.CANCELED: "failed"}


class Owner(NamedTuple):
    """An instance: its tenant, its process and its callers.

    The parent waits at `parent_token`; the root has no parent.
    """

    instance_key: int
    tenant_id: str
    process_id: str
    parent_key: int | None = None
    parent_token: int | None = None
    root_key: int | None = None


class Outbox:
    """Collect the effects of an instance's steps.

    shape:   tokens from number `first_new` on were created in this batch, so the database has no rows for them
    """

    def __init__(self, owner: Owner, definition: Definition, *, first_new: int) -> None:
        self.passes: list[TokenChanged] = []
        self.ended: InstanceEnded | None = None
        self.incidents: dict[int, IncidentRaised] = {}
        # The closed waits that have rows in the database: `node_id` and `at` of each WaitClosed.
        self.closed_nodes: list[tuple[str | None, str]] = []
        self._owner = owner
        self._definition = definition
        self._first_new = first_new
        # Keys: a token, then a node; values: the open waits.
        self._opened: defaultdict[int, dict[str, tuple[Opened, datetime]]] = defaultdict(dict)
        self._closed: list[tuple[int, str | None]] = []
        self._resolved: set[int] = set()
        self._thrown: list[SignalThrown] = []
        self._escalated: list[EscalationThrown] = []
        self._to_itself: list[tuple[int, str, SignalThrown]] = []
        self._to_itself_chars = 0
        self._returned: list[int] = []
        self._continues_later = False

    def add(self, effects: Iterable[Effect], *, now: datetime) -> None:
        """Add the effects of another step."""
        for effect in effects:
            match effect:
                case TokenChanged():
                    self.passes.append(effect)
                case WaitClosed(token, node_id, at):
                    self._close(token, node_id, at)
                case IncidentRaised(token):
                    self.incidents[token] = effect
                case IncidentResolved(token):
                    if self.incidents.pop(token, None) is None:
                        self._resolved.add(token)
                case SignalThrown():
                    self._throw(effect)
                case EscalationThrown():
                    self._escalated.append(effect)
                case InstanceEnded():
                    self.ended = effect
                case _:
                    self._opened[effect.token][effect.node_id] = effect, now

    @property
    def awaits_messages(self) -> bool:
        """Return whether a token has an unwritten wait for a message."""
        return any(isinstance(effect, MessageOpened) for effect, _ in self._waits())

    @property
    def service_tasks(self) -> int:
        """Count the open service tasks."""
        return sum(isinstance(effect, ServiceTaskOpened) for effect, _ in self._waits())

    def opened(self) -> tuple[int, int]:
        """Count the user tasks and the timers that must be written."""
        tasks = timers = 0
        for effect, _ in self._waits():
            tasks += isinstance(effect, TaskOpened)
            timers += isinstance(effect, TimerOpened)
        return tasks, timers

    def stopped(self) -> list[Row]:
        """Return the incidents as history rows, because the row of a resolved incident is deleted."""
        return [
            {"kind": "incident", "token": it.token, "node": it.node_id, "sentence": it.sentence}
            for it in self.incidents.values()
        ]

    def write(self, writes: Writes) -> None:
        """Add all rows to a batch."""
        key = {"instance_key": self._owner.instance_key}
        tenant = key | {"tenant_id": self._owner.tenant_id}
        writes.closed += [key | {"token": token, "node_id": node_id} for token, node_id in self._closed]
        writes.resolved += [key | {"token": token} for token in sorted(self._resolved)]
        writes.incidents += [
            key | {"token": it.token, "node_id": it.node_id, "sentence": it.sentence} for it in self.incidents.values()
        ]
        writes.thrown += [tenant | {"name": it.name, "variables": dict(it.variables)} for it in self._thrown]
        for effect, now in self._waits():
            self._open(effect, now, writes)
        writes.sent += [
            tenant
            | {
                "to_key": self._owner.instance_key,
                "token": token,
                "node_id": node_id,
                "signal": {"kind": "happened", "variables": dict(thrown.variables)},
            }
            for token, node_id, thrown in self._to_itself
        ]
        if self._continues_later:
            writes.sent.append(tenant | {"to_key": self._owner.instance_key, "signal": {"kind": CONTINUED}})
        writes.returned += [key | {"process_id": self._owner.process_id, "message": it} for it in self._returned]
        if self._owner.parent_key is not None:
            to_parent = tenant | {"to_key": self._owner.parent_key, "token": self._owner.parent_token}
            writes.sent += [to_parent | {"signal": _escalation(it)} for it in self._escalated]
            if self.ended:
                writes.sent.append(to_parent | {"signal": _end_signal_of(self.ended)})

    def continue_later(self) -> None:
        """Send the instance a signal, so that a later batch continues its unfinished step."""
        self._continues_later = True

    def give_back(self, message_key: int) -> None:
        """Release a kept message that no token has used; the next token that waits for this message gets it."""
        self._returned.append(message_key)

    def close_late(self, token: int, node_id: str | None) -> None:
        """Delete the row of a closed wait again, because a stale signal shows that the row still exists."""
        self._closed.append((token, node_id))

    def _waits(self) -> Iterator[tuple[Opened, datetime]]:
        """Yield the open waits, each with the time at which it opened."""
        return chain.from_iterable(by_node.values() for by_node in self._opened.values())

    def _throw(self, thrown: SignalThrown) -> None:
        """Send a thrown signal to all subscriptions, including unwritten subscriptions of this instance."""
        self._thrown.append(thrown)
        receivers = [it for it, _ in self._waits() if isinstance(it, SignalOpened) and it.name == thrown.name]
        if not receivers:
            return
        self._to_itself += [(it.token, it.node_id, thrown) for it in receivers]
        self._to_itself_chars += len(receivers) * len(json.dumps(dict(thrown.variables)))
        if self._to_itself_chars > TO_ITSELF_CHARS_MAX:
            raise ValueError(
                f"the instance throws {len(self._to_itself):,} signals to itself, which have more than"
                f" {TO_ITSELF_CHARS_MAX:,} characters in their variables; map fewer variables to the throwing events"
            )

    def _close(self, token: int, node_id: str | None, at: str) -> None:
        if node_id is None:
            self._opened.pop(token, None)
        else:
            self._opened[token].pop(node_id, None)
        if token < self._first_new:
            self._closed.append((token, node_id))
            self.closed_nodes.append((node_id, at))

    def _open(self, effect: Opened, now: datetime, writes: Writes) -> None:
        owner = self._owner
        row: Row = {
            "instance_key": owner.instance_key,
            "tenant_id": owner.tenant_id,
            "token": effect.token,
            "node_id": effect.node_id,
        }
        match effect:
            case TimerOpened():
                writes.timers.append(row | self._timer(effect, now))
            case MessageOpened(_, _, name, correlation):
                writes.subscriptions.append(row | self._subscription(effect, "message", name, correlation))
            case SignalOpened(_, _, name):
                writes.subscriptions.append(row | self._subscription(effect, "signal", name, None))
            case ServiceTaskOpened():
                payload = dict(effect.headers) | dict(effect.variables)
                # As in Camunda 8, a task without retries still has one attempt.
                attempts = None if effect.retries is None else max(1, effect.retries)
                task = {"target": effect.task_type, "attempts_max": attempts, "payload": payload}
                if effect.headers:
                    task["headers"] = dict(effect.headers)
                writes.service_tasks.append(row | task)
            case TaskOpened():
                writes.tasks.append(row | self._task(effect))
            case ChildOpened(_, _, process_id, variables, depth, catches):
                called = {"process_id": process_id, "variables": dict(variables), "depth": depth, "catches": catches}
                writes.children.append(row | called | {"root_key": owner.root_key or owner.instance_key})

    def _timer(self, effect: TimerOpened, now: datetime) -> dict[str, Any]:
        node = self._definition.nodes[effect.node_id]
        row: dict[str, Any] = {"timer_type": TIMER_TYPES.get(node.kind, TimerType.INTERMEDIATE)}
        match effect.kind:
            case TimerKind.DATE:
                return row | {"due_date": parse_due_date(effect.text)}
            case TimerKind.DURATION:
                return row | {"due_date": add_duration(now, parse_duration(effect.text), UTC_ZONE)}
            case TimerKind.CYCLE:
                # The name of a schedule's timer; it is the same for each occurrence.
                name = f"process:{self._owner.instance_key}:{effect.token}:{effect.node_id}"
                if len(name) > NAME_CHARS_MAX:
                    name = f"process:{self._owner.instance_key}:{effect.token}:{sha256(name.encode()).hexdigest()}"
                return row | {"schedule": effect.text, "zone": agreed_zone(effect.text, UTC_ZONE).key, "name": name}

    def _subscription(
        self, effect: MessageOpened | SignalOpened, kind: str, name: str, correlation: str | None
    ) -> dict[str, Any]:
        node = self._definition.nodes[effect.node_id]
        return {
            "process_id": self._owner.process_id,
            "kind": kind,
            "name": name,
            "correlation": correlation,
            "is_once": node.is_interrupting,
        }

    def _task(self, effect: TaskOpened) -> dict[str, Any]:
        node = self._definition.nodes[effect.node_id]
        return {
            "process_id": self._owner.process_id,
            "name": node.name or node.node_id,
            "assignee": effect.assignee,
            "candidate_groups": list(effect.candidate_groups),
            "candidate_users": list(effect.candidate_users),
            "due_date": effect.due_date,
            "form_key": effect.form_key,
        }


def _escalation(thrown: EscalationThrown) -> dict[str, Any]:
    return {"kind": "escalated", "code": thrown.code}


def _end_signal_of(ended: InstanceEnded) -> dict[str, Any]:
    """Return the signal that informs the parent of an instance's end."""
    signal: dict[str, Any] = {"kind": END_KINDS[ended.outcome], "variables": dict(ended.variables)}
    match ended.outcome:
        case Outcome.ERROR:
            signal |= {"code": ended.error_code, "variables": dict(ended.thrown)}
        case Outcome.CANCELED:
            signal["reason"] = "the called process was cancelled"
    return signal
