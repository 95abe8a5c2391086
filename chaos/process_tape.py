"""Make what instances of processes do by hand, on a tape: clients' calls, signals, steps, and what these make."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from chaos.history import (
    SIGNAL,
    Attempt,
    Call,
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
from chaos.promises.calling import hash_of
from chaos.tape import LEASE_S, Tape, at, rig_s

ENGINE = 0x77
JOB = "chaos.async"
Said: TypeAlias = dict[str, Any]  # what a step says of a signal
MARKS = {"+": "entered", "-": "left", "x": "terminated"}


@dataclass
class Player:
    """Play one instance of a process on a tape. Its keys follow each other, in twos: those of its timers are even."""

    tape: Tape
    key: int
    process: str
    tenant_id: str = "bob"
    version: int = 0
    used: int = 0

    @property
    def name(self) -> str:
        """Name its start."""
        return f"order {self.key}"

    def next_key(self) -> int:
        """Draw a key."""
        self.used += 2
        return self.key + self.used

    def call(self, at_s: float, verb: str, answer: str | None = None, **more: Any) -> Call:
        """Let a client ask something of it, and be answered 10 ms later."""
        named: Said = {"name": self.name, "process": self.process, "instance_key": self.key, "answer": answer}
        return self.tape.call(at_s, verb, self.tenant_id, **(named | more))

    def start(self, at_s: float, **more: Any) -> None:
        """Let a client start it."""
        self.begin(at_s + 0.005)
        self.call(at_s, "start", **more)

    def begin(self, at_s: float, *, order: str | None = None) -> None:
        """Commit the signal with which it begins, under its own name or another one."""
        said = {"kind": "begin", "definition": 9, "variables": {"order": order or self.name, "act": "return", "n": 0}}
        self.tape.commit(at_s, self._signal(self.key, None, None, said))

    def signal(self, at_s: float, kind: str, node_id: str | None = None, *others: Change) -> int:
        """Send it a signal, and return that one's key."""
        key = self.next_key()
        self.tape.commit(at_s, self._signal(key, self.key, node_id, {"kind": kind}), *others)
        return key

    def step(
        self,
        at_s: float,
        told: Sequence[Said],
        passes: str,
        *made: Change,
        outcome: str | None = None,
        counted: int | None = None,
    ) -> None:
        """Let an engine advance it by signals.

        shape:   `told` as `instance_steps` has it; `passes` as `3 approve+`, for each the token, the node, and how
        """
        self.version += 1
        gone = [DeliveryDeleted(it["key"]) for it in told if it["key"] in self.tape.deliveries]
        result = None if outcome is None else json.dumps({"n": counted})
        self.tape.commit(at_s, *gone, *self.advanced(told, passes, outcome=outcome, result=result), *made)

    def advanced(
        self, told: Sequence[Said], passes: str, *, outcome: str | None = None, result: str | None = None
    ) -> list[Change]:
        """Make the rows with which a step leaves it."""
        row = InstanceWritten(self.version == 1, self.key, self.tenant_id, self.process, self.version, outcome, result)
        words = passes.split()
        went = [[int(token), word[:-1], MARKS[word[-1]]] for token, word in zip(words[::2], words[1::2], strict=True)]
        return [row, InstanceStepped(self.key, self.version, ENGINE, json.dumps(list(told)), json.dumps(went))]

    def timer(self, key: int, due_s: float, node_id: str) -> TimerWritten:
        """Make the row of a timer that a node waits for."""
        self.tape.payloads[key], self.tape.targets[key] = None, SIGNAL
        return TimerWritten(
            True, key, at(due_s), self.tenant_id, None, None, 1, None, None, paused=False, instance_key=self.key,
            node_id=node_id,
        )  # fmt: skip

    def fire(self, at_s: float, holder: int, key: int) -> None:
        """Let a shard fire a timer of it, which leaves a signal."""
        row = self.tape.rows[key]
        signal = self._signal(key, self.key, row.node_id, {})
        self.tape.commit(at_s, TimerDeleted(key), self._record(at_s, key, "TRIGGERED", holder), signal)

    def close_timer(self, at_s: float, key: int) -> list[Change]:
        """Let an engine cancel a timer, as a part of a step."""
        return [TimerDeleted(key), self._record(at_s, key, "CANCELED", ENGINE)]

    def late(self, at_s: float, key: int, *closed: Change) -> None:
        """Let an engine spend a signal that has come after its end, and close what that says."""
        record = Recorded(
            0, at(at_s), key, self.tenant_id, None, at(at_s), 1, "STALE", ENGINE, None, None, None, SIGNAL, self.key
        )
        self.tape.commit(at_s, DeliveryDeleted(key), record, *closed)

    def task(self, key: int, node_id: str) -> TaskWritten:
        """Make the row of a task."""
        return TaskWritten(True, key, self.key, node_id, completed=False)

    def complete(self, at_s: float, task_key: int) -> int:
        """Let a client complete a task; return the signal's key."""
        row = self.tape.tasks[task_key]
        key = self.signal(at_s + 0.005, "completed", None, row._replace(completed=True))
        self.call(at_s, "complete", "COMPLETED", task_key=task_key)
        return key

    def job(self, key: int, node_id: str) -> DeliveryWritten:
        """Make the row of a service task."""
        payload = json.dumps({"act": "return", "order": self.name})
        return DeliveryWritten(True, key, JOB, None, None, 0, 0, self.tenant_id, self.key, node_id, True, payload)

    def take(self, at_s: float, worker: int, key: int) -> DeliveryWritten:
        """Let a worker take a service task; return its row as it was before."""
        row = self.tape.deliveries[key]
        self.tape.commit(at_s, row._replace(claimed_by=worker, claimed_until=at(at_s + LEASE_S), claims=1))
        return row

    def work(self, at_s: float, worker: int, key: int) -> int:
        """Let a worker do a service task; return the key of the signal that says so."""
        row = self.take(at_s, worker, key)
        self.attempt(at_s + 0.01, key, row)
        signal = self.next_key()
        end = self.ending(at_s + 0.02, key, "DELIVERED", worker)
        said = self._signal(signal, self.key, row.node_id, {"kind": "completed"})
        self.tape.commit(at_s + 0.02, DeliveryDeleted(key), end, said)
        return signal

    def ending(self, at_s: float, key: int, intent: str, worker: int | None) -> Recorded:
        """Make the record of how a service task ended."""
        return Recorded(
            0, at(at_s), key, self.tenant_id, None, at(at_s), 1, intent, worker, None, None, '{"attempt": 1}', JOB,
            self.key,
        )  # fmt: skip

    def attempt(self, at_s: float, key: int, job: DeliveryWritten) -> None:
        """Let a handler be called for a service task, and write that down."""
        call = Attempt(key, JOB, self.tenant_id, 1, 1, hash_of(job.payload), rig_s(at_s), 77)
        self.tape.history.attempts.append(call)

    def _signal(self, key: int, to: int | None, node_id: str | None, said: Said) -> DeliveryWritten:
        payload = json.dumps(said) if said else None
        return DeliveryWritten(
            True, key, SIGNAL, None, None, 0, 0, self.tenant_id, to, node_id, job=False, payload=payload
        )

    def _record(self, at_s: float, key: int, intent: str, holder: int) -> Recorded:
        return self.tape.record(at_s, key, intent, holder, instance_key=self.key)


def told(key: int, kind: str, token: int | None = None, node: str | None = None, *, stale: bool = False) -> Said:
    """Say of a signal what a step says."""
    said: Said = {"key": key, "kind": kind, "token": token, "node": node}
    return {name: value for name, value in said.items() if value is not None} | ({"stale": True} if stale else {})


@dataclass
class Race:
    """An instance of the race, with the keys of its timer and its task, which waits for a person and the time."""

    player: Player
    timer: int
    task: int

    @classmethod
    def begun(cls, tape: Tape, at_s: float, key: int, *, due_s: float) -> Race:
        """Start one, and let an engine begin it 20 ms later."""
        player = Player(tape, key, "chaos-race")
        player.start(at_s)
        timer, task = player.next_key(), player.next_key()
        made = (player.timer(timer, due_s, "late"), player.task(task, "approve"))
        player.step(at_s + 0.02, [told(key, "begin")], "1 chaos-race+ 2 start+ 2 start- 3 approve+", *made)
        return cls(player, timer, task)

    def approved(self, at_s: float, worker: int) -> None:
        """Let a client complete the task, and a worker do the rest; it ends 0.1 s later."""
        charged = self.player.work(at_s + 0.04, worker, self.handed_on(at_s))
        self.charged(at_s + 0.1, charged)

    def handed_on(self, at_s: float) -> int:
        """Let a client complete the task, and an engine make the service task 20 ms later; return that one's key."""
        player, job = self.player, self.player.next_key()
        done = player.complete(at_s, self.task)
        player.step(
            at_s + 0.02,
            [told(done, "completed", 3)],
            "3 approve- 3 count+ 3 count- 3 charge+",
            *player.close_timer(at_s + 0.02, self.timer),
            TaskDeleted(self.task),
            player.job(job, "charge"),
        )
        return job

    def canceled_at_work(self, at_s: float, worker: int) -> DeliveryWritten:
        """Let a worker take the service task 40 ms later, and a client cancel the instance; return the task's row."""
        player, job = self.player, self.handed_on(at_s)
        row = player.take(at_s + 0.04, worker, job)
        cancel = player.signal(at_s + 0.1, "cancel")
        player.call(at_s + 0.1, "stop", "SENT")
        taken_away = (DeliveryDeleted(job), player.ending(at_s + 0.12, job, "DISCARDED", ENGINE))
        passes = "3 chargex 1 chaos-racex"
        player.step(at_s + 0.12, [told(cancel, "cancel")], passes, *taken_away, outcome="CANCELED")
        return row

    def charged(self, at_s: float, signal: int, *, counted: int = 1) -> None:
        """Let an engine end it, once its service task is done."""
        passes = "3 charge- 3 end+ 3 end- 1 chaos-race-"
        self.player.step(at_s, [told(signal, "completed", 3, "charge")], passes, outcome="COMPLETED", counted=counted)

    def expired(self, at_s: float, *more: Said, counted: int = 1) -> None:
        """Let an engine end it by its timer, which has fired; other signals come with that."""
        self.player.step(
            at_s,
            [told(self.timer, "fired", 3, "late"), *more],
            "3 approvex 3 late+ 3 late- 3 count-late+ 3 count-late- 3 expired+ 3 expired- 1 chaos-race-",
            *([TaskDeleted(self.task)] if self.task in self.player.tape.tasks else []),
            outcome="COMPLETED",
            counted=counted,
        )


def waiting(tape: Tape, at_s: float, key: int) -> Player:
    """Let an instance begin that waits for its message."""
    player = Player(tape, key, "chaos-message")
    player.start(at_s)
    player.step(at_s + 0.02, [told(key, "begin")], "1 chaos-message+ 2 start+ 2 start- 3 paid+")
    return player


def stopped(player: Player, at_s: float) -> None:
    """Let a client cancel an instance that waits for its message, and an engine do that."""
    signal = player.signal(at_s + 0.005, "cancel")
    player.call(at_s, "stop", "SENT")
    player.step(at_s + 0.02, [told(signal, "cancel")], "3 paidx 1 chaos-messagex", outcome="CANCELED")
