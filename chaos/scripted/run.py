"""Write a history by hand, as a sequence of clients' calls, holders' changes, and faults."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from chaos.history import Bounds, History, Pending, Read
from chaos.history.calls import Call, HandlerCall, Outcome, TimerRequest
from chaos.history.changes import (
    Change,
    Commit,
    DeliveryDeleted,
    DeliveryWritten,
    HolderWritten,
    InstanceWritten,
    LeaderWritten,
    Recorded,
    TaskDeleted,
    TaskWritten,
    TimerDeleted,
    TimerWritten,
)
from chaos.history.faults import Fault, FaultKind
from chaos.promises.calls import hash_of
from chaos.run_index import DELIVERED, REDRIVEN

START = datetime(2030, 1, 31, 8, tzinfo=UTC)
LEASE_S = 10.0
LAG_S = 0.002
READERS = ("first reader", "second reader")


def at(seconds: float) -> datetime:
    """Return a moment of the run."""
    return START + timedelta(seconds=seconds)


def rig_s(seconds: float) -> float:
    """Return a moment of the run by the rig's clock."""
    return at(seconds).timestamp()


@dataclass
class ScriptedRun:
    """Write a history step by step.

    Moments are seconds from the start of the run; a call takes 10 ms and commits after 5 ms.
    """

    history: History
    rows: dict[int, TimerWritten] = field(default_factory=dict)
    payloads: dict[int, str | None] = field(default_factory=dict)
    targets: dict[int, str] = field(default_factory=dict)
    fired: dict[int, Recorded] = field(default_factory=dict)
    deliveries: dict[int, DeliveryWritten] = field(default_factory=dict)
    instances: dict[int, InstanceWritten] = field(default_factory=dict)
    tasks: dict[int, TaskWritten] = field(default_factory=dict)
    xid: int = 700

    def commit(self, at_s: float, *changes: Change) -> None:
        """Commit changes in one transaction; records get their positions in the log."""
        self.xid += 1
        placed = tuple(
            change._replace(position=100 * self.xid + n) if isinstance(change, Recorded) else change
            for n, change in enumerate(changes)
        )
        for change in placed:
            if isinstance(change, TimerWritten):
                self.rows[change.timer_key] = change._replace(new=False)
            elif isinstance(change, TimerDeleted):
                self.rows.pop(change.timer_key, None)
            elif isinstance(change, DeliveryWritten):
                self.deliveries[change.timer_key] = change._replace(new=False)
            elif isinstance(change, DeliveryDeleted):
                self.deliveries.pop(change.timer_key, None)
            elif isinstance(change, InstanceWritten):
                self.instances[change.instance_key] = change._replace(new=False)
            elif isinstance(change, TaskWritten):
                self.tasks[change.task_key] = change._replace(new=False)
            elif isinstance(change, TaskDeleted):
                self.tasks.pop(change.task_key, None)
            elif isinstance(change, Recorded) and change.intent == "TRIGGERED":
                self.fired[change.timer_key] = change
        self.history.commits.append(Commit(16 * self.xid, self.xid, at(at_s), placed))

    def holder(
        self,
        at_s: float,
        holder: int,
        part: int | None,
        *,
        ended: bool = False,
        silent: bool = False,
        role: str = "shard",
    ) -> None:
        """Write the row of a holder, with its half of the slots, its end, or its suspension."""
        moment = at(at_s)
        row = HolderWritten(
            holder, part, None if part is None else 2, 4_000 + holder, moment, moment if ended else None,
            moment if silent else None, role,
        )  # fmt: skip
        self.commit(at_s, row)

    def lead(self, at_s: float, leader: int | None) -> None:
        """Let a coordinator acquire or renew its leadership."""
        self.commit(at_s, LeaderWritten(leader))

    def call(self, at_s: float, verb: str, tenant_id: str, outcome: Outcome = "ok", **more: object) -> Call:
        """Add a client's call; the answer comes after 10 ms."""
        call = Call(
            len(self.history.calls) + 1, verb, tenant_id, rig_s(at_s), rig_s(at_s + 0.01), outcome, **more  # type: ignore[arg-type]
        )  # fmt: skip
        self.history.calls.append(call)
        return call

    def schedule(
        self, at_s: float, tenant_id: str, *requests: TimerRequest, outcome: Outcome = "ok", commits: bool = True
    ) -> Call:
        """Let a client schedule timers, and commit them unless `commits` is false."""
        if commits:
            self.commit(at_s + 0.005, *(self.row_of(at_s, tenant_id, it) for it in requests))
        return self.call(at_s, "schedule", tenant_id, outcome, timers=requests)

    def row_of(self, at_s: float, tenant_id: str, request: TimerRequest) -> TimerWritten:
        """Return the first row of a timer; the caller sets the first due date of a schedule."""
        due_date = request.due_date or at(at_s + 0.003 + (request.delay_s or 0.0))
        self.payloads[request.timer_key] = request.payload
        self.targets[request.timer_key] = request.target
        name = request.name
        return TimerWritten(
            True, request.timer_key, due_date, tenant_id, name, request.rule, 1, None, None, paused=False
        )

    def claim(self, at_s: float, holder: int, *keys: int) -> None:
        """Let a holder lease timers."""
        until = at(at_s + LEASE_S)
        self.commit(at_s, *(self.rows[key]._replace(claimed_by=holder, claimed_until=until) for key in keys))

    def record(self, at_s: float, key: int, intent: str, holder: int | None, **more: object) -> Recorded:
        """Return a timer's record."""
        row = self.rows[key]
        record = Recorded(
            0, at(at_s), key, row.tenant_id, row.name, row.due_date, row.occurrence, intent, holder, row.schedule,
            self.payloads[key], None, self.targets.get(key, "log"),
        )  # fmt: skip
        return record._replace(**more)  # type: ignore[arg-type]

    def fire(self, at_s: float, holder: int, key: int, *others: Change, **more: object) -> None:
        """Let a holder fire a timer, and create a delivery if the timer has a target.

        `others` are further changes in the commit.
        """
        fired = self.record(at_s, key, "TRIGGERED", holder, **more)
        left = () if fired.target == "log" else (self.delivery(key, fired.target),)
        self.commit(at_s, TimerDeleted(key), fired, *left, *others)

    def fire_in_time(self, holder: int, key: int, *others: Change) -> None:
        """Let a holder lease a timer half a second before the due date, and fire it at the due date."""
        due_s = (self.rows[key].due_date - START).total_seconds()
        self.claim(due_s - 0.5, holder, key)
        self.fire(due_s + LAG_S, holder, key, *others)

    def next_of(self, key: int, next_key: int, due_s: float, *, number: int | None = None) -> TimerWritten:
        """Return the row of the next occurrence of a schedule."""
        row = self.rows[key]
        self.payloads[next_key] = self.payloads[key]
        self.targets[next_key] = self.targets[key]
        return row._replace(
            new=True, timer_key=next_key, due_date=at(due_s), occurrence=number or row.occurrence + 1, claimed_by=None,
            claimed_until=None,
        )  # fmt: skip

    def cancel(self, at_s: float, key: int) -> None:
        """Commit a cancellation by a client."""
        self.commit(at_s, TimerDeleted(key), self.record(at_s, key, "CANCELED", None))

    def move(self, at_s: float, key: int, to_s: float) -> None:
        """Commit a reschedule by a client."""
        row = self.rows[key]._replace(due_date=at(to_s), claimed_by=None, claimed_until=None)
        detail = json.dumps({"due_date": at(to_s).isoformat(), "by": "client"})
        self.commit(at_s, row, self.record(at_s, key, "RESCHEDULED", None, detail=detail))

    def pause(self, at_s: float, holder: int, key: int) -> None:
        """Let a holder pause a timer that can't be fired."""
        row = self.rows[key]._replace(due_date=datetime.max.replace(tzinfo=UTC), paused=True, claimed_by=None)
        self.commit(at_s, row, self.record(at_s, key, "PAUSED", holder, detail='{"refused": "no schedule"}'))

    def pause_until(self, at_s: float, tenant_id: str, key: int, until_s: float) -> None:
        """Let a client pause a timer until a moment."""
        row = self.rows[key]._replace(due_date=datetime.max.replace(tzinfo=UTC), paused=True, claimed_by=None)
        detail = json.dumps({"until": at(until_s).isoformat(), "by": "client"})
        self.commit(at_s + 0.005, row, self.record(at_s, key, "PAUSED", None, detail=detail))
        self.call(at_s, "pause", tenant_id, timer_key=key, delay_s=until_s - at_s, answer="PAUSED")

    def resume(self, at_s: float, key: int, due_s: float) -> None:
        """Let a shard resume a paused timer with the due date from before the pause."""
        row = self.rows[key]._replace(due_date=at(due_s), paused=False)
        self.commit(at_s, row, self.record(at_s, key, "RESUMED", None))

    def delivery(self, key: int, target: str) -> DeliveryWritten:
        """Return the first row of a delivery."""
        return DeliveryWritten(True, key, target, None, None, 0, 0)

    def take(self, at_s: float, worker: int, key: int) -> None:
        """Let a worker claim a delivery."""
        row = self.deliveries[key]
        self.commit(at_s, row._replace(claimed_by=worker, claimed_until=at(at_s + LEASE_S), claims=row.claims + 1))

    def attempt(self, at_s: float, key: int, attempt: int = 1, **more: object) -> None:
        """Record a handler's call for a delivery."""
        fired = self.fired[key]
        call = HandlerCall(
            key, fired.target, fired.tenant_id, fired.occurrence, attempt, hash_of(fired.payload), rig_s(at_s), 77
        )
        self.history.attempts.append(call._replace(**more))  # type: ignore[arg-type]

    def fail(self, at_s: float, key: int, *, times: int = 1) -> None:
        """Let a worker record a failed attempt, before a further attempt."""
        row = self.deliveries[key]
        failed = row.failed_attempts + times
        self.commit(at_s, row._replace(claimed_by=None, claimed_until=None, failed_attempts=failed))

    def ending(self, at_s: float, worker: int | None, key: int, intent: str, attempt: int = 1) -> Recorded:
        """Return the record of the end or the redrive of a delivery."""
        detail = json.dumps({"attempt": attempt, "ms": 3})
        return self.fired[key]._replace(
            position=0, recorded_at=at(at_s), intent=intent, holder=worker, payload=None, detail=detail
        )

    def settle(self, at_s: float, worker: int, key: int, intent: str = "DELIVERED", attempt: int = 1) -> None:
        """Let a worker end a delivery."""
        self.commit(at_s, DeliveryDeleted(key), self.ending(at_s, worker, key, intent, attempt))

    def redrive(self, at_s: float, key: int) -> None:
        """Let an operator redrive a dead letter."""
        row = self.delivery(key, self.fired[key].target)
        self.commit(at_s, self.ending(at_s, None, key, "REDRIVEN"), row)

    def fault(self, kind: FaultKind, began_s: float, ended_s: float, within_s: float | None, **more: object) -> None:
        """Add a fault."""
        number = len(self.history.faults) + 1
        name = f"{kind} it"
        fault = Fault(number, kind, name, rig_s(began_s), rig_s(ended_s), recovers_within_s=within_s)
        self.history.faults.append(replace(fault, **more))  # type: ignore[arg-type]

    def end(self) -> History:
        """Read the log to its end, and the tables; return the history."""
        records = [it for commit in self.history.commits for it in commit.changes if isinstance(it, Recorded)]
        places = sorted(it.position for it in records)
        self.history.reads = [Read(reader, place) for place in places for reader in READERS]
        self.history.pending = [Pending(row.timer_key, row.due_date, row.paused) for row in self.rows.values()]
        self.history.undelivered = sorted(self.deliveries)
        self.history.running = sorted(key for key, row in self.instances.items() if row.outcome is None)
        self.history.open_tasks = sorted(self.tasks)
        last = {it.timer_key: it.intent for it in records if it.intent in (*DELIVERED, REDRIVEN)}
        self.history.dead_letters = sorted(key for key, intent in last.items() if intent == "DEAD")
        return self.history


def blank(*, ends_s: float = 60.0) -> ScriptedRun:
    """Begin a run without events."""
    return ScriptedRun(History(seed=1, began_at=rig_s(-1), ended_at=rig_s(ends_s), bounds=Bounds(claim_max=5)))
