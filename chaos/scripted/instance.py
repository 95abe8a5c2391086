"""Write the history of process instances by hand: clients' calls, signals, steps, and the effects of steps."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from chaos.history.calls import Call, HandlerCall
from chaos.history.changes import (
    SIGNAL,
    Change,
    DeliveryDeleted,
    DeliveryWritten,
    InstanceStepped,
    InstanceWritten,
    Recorded,
    TaskDeleted,
    TaskWritten,
    TimerDeleted,
    TimerWritten,
)
from chaos.promises.calls import hash_of
from chaos.scripted.run import LEASE_S, ScriptedRun, at, rig_s

ENGINE = 0x77
JOB = "chaos.async"
SignalJson: TypeAlias = dict[str, Any]  # A signal in the JSON of a step.
MARKS = {"+": "entered", "-": "left", "x": "terminated"}


@dataclass
class ScriptedInstance:
    """Write the history of one instance. Keys are drawn in steps of two, beginning at the instance's key."""

    run: ScriptedRun
    key: int
    process: str
    tenant_id: str = "bob"
    version: int = 0
    used: int = 0

    @property
    def name(self) -> str:
        """Return the idempotency key of the instance's start."""
        return f"order {self.key}"

    def next_key(self) -> int:
        """Draw a key."""
        self.used += 2
        return self.key + self.used

    def call(self, at_s: float, verb: str, answer: str | None = None, **more: Any) -> Call:
        """Add a client's call about the instance; the answer comes after 10 ms."""
        named: SignalJson = {"name": self.name, "process": self.process, "instance_key": self.key, "answer": answer}
        return self.run.call(at_s, verb, self.tenant_id, **(named | more))

    def start(self, at_s: float, **more: Any) -> None:
        """Let a client start the instance."""
        self.begin(at_s + 0.005)
        self.call(at_s, "start", **more)

    def begin(self, at_s: float, *, order: str | None = None) -> None:
        """Commit the instance's first signal; its variable `order` is by default the instance's name."""
        content = {
            "kind": "begin",
            "definition": 9,
            "variables": {"order": order or self.name, "act": "return", "n": 0},
        }
        self.run.commit(at_s, self._signal(self.key, None, None, content))

    def signal(self, at_s: float, kind: str, node_id: str | None = None, *others: Change) -> int:
        """Send a signal to the instance, and return the signal's key."""
        key = self.next_key()
        self.run.commit(at_s, self._signal(key, self.key, node_id, {"kind": kind}), *others)
        return key

    def step(
        self,
        at_s: float,
        told: Sequence[SignalJson],
        passes: str,
        *made: Change,
        outcome: str | None = None,
        counted: int | None = None,
    ) -> None:
        """Write one step of the instance, in which an engine takes the signals `told`.

        shape:   `told` has the format of `instance_steps`; `passes` has texts such as `3 approve+`: token, node and
                 move
        """
        self.version += 1
        gone = [DeliveryDeleted(it["key"]) for it in told if it["key"] in self.run.deliveries]
        result = None if outcome is None else json.dumps({"n": counted})
        self.run.commit(at_s, *gone, *self.advanced(told, passes, outcome=outcome, result=result), *made)

    def advanced(
        self, told: Sequence[SignalJson], passes: str, *, outcome: str | None = None, result: str | None = None
    ) -> list[Change]:
        """Return the rows that a step writes for the instance."""
        row = InstanceWritten(self.version == 1, self.key, self.tenant_id, self.process, self.version, outcome, result)
        words = passes.split()
        went = [[int(token), word[:-1], MARKS[word[-1]]] for token, word in zip(words[::2], words[1::2], strict=True)]
        return [row, InstanceStepped(self.key, self.version, ENGINE, json.dumps(list(told)), json.dumps(went))]

    def timer(self, key: int, due_s: float, node_id: str) -> TimerWritten:
        """Return the row of a timer that belongs to a node."""
        self.run.payloads[key], self.run.targets[key] = None, SIGNAL
        return TimerWritten(
            True, key, at(due_s), self.tenant_id, None, None, 1, None, None, paused=False, instance_key=self.key,
            node_id=node_id,
        )  # fmt: skip

    def fire(self, at_s: float, holder: int, key: int) -> None:
        """Let a shard fire a timer of the instance, which sends a signal."""
        row = self.run.rows[key]
        signal = self._signal(key, self.key, row.node_id, {})
        self.run.commit(at_s, TimerDeleted(key), self._record(at_s, key, "TRIGGERED", holder), signal)

    def close_timer(self, at_s: float, key: int) -> list[Change]:
        """Let an engine cancel a timer in a step."""
        return [TimerDeleted(key), self._record(at_s, key, "CANCELED", ENGINE)]

    def late(self, at_s: float, key: int, *closed: Change) -> None:
        """Let an engine record a signal as stale after the instance's end, and delete the rows in `closed`."""
        record = Recorded(
            0, at(at_s), key, self.tenant_id, None, at(at_s), 1, "STALE", ENGINE, None, None, None, SIGNAL, self.key
        )
        self.run.commit(at_s, DeliveryDeleted(key), record, *closed)

    def task(self, key: int, node_id: str) -> TaskWritten:
        """Return the row of a user task."""
        return TaskWritten(True, key, self.key, node_id, completed=False)

    def complete(self, at_s: float, task_key: int) -> int:
        """Let a client complete a task; return the signal's key."""
        row = self.run.tasks[task_key]
        key = self.signal(at_s + 0.005, "completed", None, row._replace(completed=True))
        self.call(at_s, "complete", "COMPLETED", task_key=task_key)
        return key

    def job(self, key: int, node_id: str) -> DeliveryWritten:
        """Return the row of a service task."""
        payload = json.dumps({"act": "return", "order": self.name})
        return DeliveryWritten(True, key, JOB, None, None, 0, 0, self.tenant_id, self.key, node_id, True, payload)

    def take(self, at_s: float, worker: int, key: int) -> DeliveryWritten:
        """Let a worker claim a service task; return the task's row before the claim."""
        row = self.run.deliveries[key]
        self.run.commit(at_s, row._replace(claimed_by=worker, claimed_until=at(at_s + LEASE_S), claims=1))
        return row

    def work(self, at_s: float, worker: int, key: int) -> int:
        """Let a worker complete a service task; return the key of the signal."""
        row = self.take(at_s, worker, key)
        self.attempt(at_s + 0.01, key, row)
        signal = self.next_key()
        end = self.ending(at_s + 0.02, key, "DELIVERED", worker)
        content = self._signal(signal, self.key, row.node_id, {"kind": "completed"})
        self.run.commit(at_s + 0.02, DeliveryDeleted(key), end, content)
        return signal

    def ending(self, at_s: float, key: int, intent: str, worker: int | None) -> Recorded:
        """Return the record of a service task's end."""
        return Recorded(
            0, at(at_s), key, self.tenant_id, None, at(at_s), 1, intent, worker, None, None, '{"attempt": 1}', JOB,
            self.key,
        )  # fmt: skip

    def attempt(self, at_s: float, key: int, job: DeliveryWritten) -> None:
        """Record a handler's call for a service task."""
        call = HandlerCall(key, JOB, self.tenant_id, 1, 1, hash_of(job.payload), rig_s(at_s), 77)
        self.run.history.attempts.append(call)

    def _signal(self, key: int, to: int | None, node_id: str | None, content: SignalJson) -> DeliveryWritten:
        payload = json.dumps(content) if content else None
        return DeliveryWritten(
            True, key, SIGNAL, None, None, 0, 0, self.tenant_id, to, node_id, job=False, payload=payload
        )

    def _record(self, at_s: float, key: int, intent: str, holder: int) -> Recorded:
        return self.run.record(at_s, key, intent, holder, instance_key=self.key)


def taken_signal(
    key: int, kind: str, token: int | None = None, node: str | None = None, *, stale: bool = False
) -> SignalJson:
    """Return a signal in the form in which a step records it."""
    content: SignalJson = {"key": key, "kind": kind, "token": token, "node": node}
    return {name: value for name, value in content.items() if value is not None} | ({"stale": True} if stale else {})


@dataclass
class Race:
    """Write the history of an instance with a race between a user task and a timer.

    `task` and `timer` are the keys of the user task and the timer.
    """

    instance: ScriptedInstance
    timer: int
    task: int

    @classmethod
    def begun(cls, run: ScriptedRun, at_s: float, key: int, *, due_s: float) -> Race:
        """Start an instance, and let an engine begin it 20 ms later."""
        instance = ScriptedInstance(run, key, "chaos-race")
        instance.start(at_s)
        timer, task = instance.next_key(), instance.next_key()
        made = (instance.timer(timer, due_s, "late"), instance.task(task, "approve"))
        instance.step(at_s + 0.02, [taken_signal(key, "begin")], "1 chaos-race+ 2 start+ 2 start- 3 approve+", *made)
        return cls(instance, timer, task)

    def approved(self, at_s: float, worker: int) -> None:
        """Let a client complete the user task, and a worker the service task; the instance ends 0.1 s later."""
        charged = self.instance.work(at_s + 0.04, worker, self.handed_on(at_s))
        self.charged(at_s + 0.1, charged)

    def handed_on(self, at_s: float) -> int:
        """Let a client complete the user task, and an engine create the service task 20 ms later.

        Return the key of the service task.
        """
        instance, job = self.instance, self.instance.next_key()
        done = instance.complete(at_s, self.task)
        instance.step(
            at_s + 0.02,
            [taken_signal(done, "completed", 3)],
            "3 approve- 3 count+ 3 count- 3 charge+",
            *instance.close_timer(at_s + 0.02, self.timer),
            TaskDeleted(self.task),
            instance.job(job, "charge"),
        )
        return job

    def canceled_at_work(self, at_s: float, worker: int) -> DeliveryWritten:
        """Let a worker claim the service task, and a client cancel the instance; return the row of the task."""
        instance, job = self.instance, self.handed_on(at_s)
        row = instance.take(at_s + 0.04, worker, job)
        cancel = instance.signal(at_s + 0.1, "cancel")
        instance.call(at_s + 0.1, "stop", "SENT")
        taken_away = (DeliveryDeleted(job), instance.ending(at_s + 0.12, job, "DISCARDED", ENGINE))
        passes = "3 chargex 1 chaos-racex"
        instance.step(at_s + 0.12, [taken_signal(cancel, "cancel")], passes, *taken_away, outcome="CANCELED")
        return row

    def charged(self, at_s: float, signal: int, *, counted: int = 1) -> None:
        """Let an engine end the instance after its service task."""
        passes = "3 charge- 3 end+ 3 end- 1 chaos-race-"
        self.instance.step(
            at_s, [taken_signal(signal, "completed", 3, "charge")], passes, outcome="COMPLETED", counted=counted
        )

    def expired(self, at_s: float, *more: SignalJson, counted: int = 1) -> None:
        """Let an engine end the instance in one step, with the signal of the timer and further signals."""
        self.instance.step(
            at_s,
            [taken_signal(self.timer, "fired", 3, "late"), *more],
            "3 approvex 3 late+ 3 late- 3 count-late+ 3 count-late- 3 expired+ 3 expired- 1 chaos-race-",
            *([TaskDeleted(self.task)] if self.task in self.instance.run.tasks else []),
            outcome="COMPLETED",
            counted=counted,
        )


def waiting(run: ScriptedRun, at_s: float, key: int) -> ScriptedInstance:
    """Start an instance that waits for its message."""
    instance = ScriptedInstance(run, key, "chaos-message")
    instance.start(at_s)
    instance.step(at_s + 0.02, [taken_signal(key, "begin")], "1 chaos-message+ 2 start+ 2 start- 3 paid+")
    return instance


def stopped(instance: ScriptedInstance, at_s: float) -> None:
    """Let a client cancel an instance that waits for its message."""
    signal = instance.signal(at_s + 0.005, "cancel")
    instance.call(at_s, "stop", "SENT")
    instance.step(at_s + 0.02, [taken_signal(signal, "cancel")], "3 paidx 1 chaos-messagex", outcome="CANCELED")
