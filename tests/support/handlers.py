"""Fake handler processes that record their calls, and answer by the test's function."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from shardclock import Completed, Outcome, Policy
from shardclock_server.sql.deliveries.claim import ClaimedDelivery
from shardclock_server.workers.handler import HandlerSpec
from shardclock_server.workers.process import CallResult
from shardclock_server.workers.user_process import NotCalled, ProcessDied

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)

# The default policy of a handler.
NUMBERS: dict[str, Any] = {
    "max_attempts": 20, "timeout_s": 30.0, "retry_min_s": 1.0, "retry_max_s": 3_600.0, "give_up_after_s": None,
    "expires_after_s": None, "concurrency": None, "rate_per_s": None, "batch": 1, "priority": 2,
    "num_cpus": None, "memory_mib": None,
}  # fmt: skip

Play = Callable[[ClaimedDelivery], Outcome]


def policy_of(**numbers: Any) -> Policy:
    """Return the policy of a handler that declares only these numbers."""
    return Policy(**NUMBERS | numbers)


def spec_of(target: str = "order.expired", *, is_async: bool = True, **policy: Any) -> HandlerSpec:
    return HandlerSpec(
        target, f"app:{target}", is_async, takes_batch=policy.get("batch", 1) > 1, policy=policy_of(**policy)
    )


def delivery(timer_key: int = 1, **fields: Any) -> ClaimedDelivery:
    made = ClaimedDelivery(
        timer_key,
        None,
        None,
        NOON,
        NOON,
        NOON,
        None,
        1,
        1,
        0,
        0,
        "default",
        "USER",
        "order.expired",
        None,
        None,
        None,
        None,
    )
    return made._replace(**fields)


class Died(Exception):
    """A test's function raises this exception to kill the process with its delivery."""


class Hangs(Exception):
    """A test's function raises this exception to let the call of its delivery hang."""


@dataclass
class FakeProcess:
    """A fake process that answers calls by the test's function, and records each chunk of keys."""

    play: Play
    chunks: list[list[int]] = field(default_factory=list)
    comes_up: bool = True
    killed: bool = False
    gate: asyncio.Event | None = None
    answers: bool = True  # whether the process answers while a call hangs
    hangs: bool = False
    slow_after: int | None = None  # the limit of calls in a chunk
    # the process is unreachable, and the worker does not know yet whether the process has ended
    is_cut_off: bool = False
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def gone(self) -> None:
        await self.ended.wait()
        raise ProcessDied("the handler's process ended: exit code 1")

    def die(self) -> None:
        """End without a kill: the next call of this process gets an error."""
        self.play = _dies
        self.ended.set()

    async def ready(self) -> None:
        """Start, or fail to start; a blocked loop doesn't answer."""
        if not self.comes_up:
            raise ProcessDied("the handler's process ended: no module named app")
        if self.hangs and not self.answers:
            await asyncio.Event().wait()

    async def call(self, deliveries: Sequence[ClaimedDelivery]) -> CallResult:
        assert not self.killed, "a process that was killed is not called"
        if self.is_cut_off:
            raise NotCalled
        deliveries = deliveries[: self.slow_after]
        self.chunks.append([it.timer_key for it in deliveries])
        await asyncio.sleep(0)
        if self.gate is not None:
            await self.gate.wait()
        try:
            return CallResult([self.play(it) for it in deliveries], took_s=0.0001 * len(deliveries))
        except Died:
            self.kill()
            raise ProcessDied("the handler's process ended: exit code 1") from None
        except Hangs:
            self.hangs = True
            await asyncio.Event().wait()
            raise AssertionError("never") from None

    def kill(self) -> None:
        self.killed = True
        self.ended.set()


def _dies(_: ClaimedDelivery) -> Outcome:
    raise Died


def completes(_: ClaimedDelivery) -> Outcome:
    """Return a test's function for a handler that does nothing."""
    return Completed()


@dataclass
class FakeProcesses:
    """Start fake processes with the same behaviour, and record them."""

    play: Play = completes
    started: list[FakeProcess] = field(default_factory=list)
    comes_up: bool = True
    gate: asyncio.Event | None = None
    answers: bool = True
    slow_after: int | None = None

    def __call__(self, _: HandlerSpec) -> FakeProcess:
        process = FakeProcess(self.play, comes_up=self.comes_up, gate=self.gate, answers=self.answers)
        process.slow_after = self.slow_after
        self.started.append(process)
        return process

    @property
    def chunks(self) -> list[list[int]]:
        """Return all chunks that were called, in the order of the processes."""
        return [chunk for process in self.started for chunk in process.chunks]
