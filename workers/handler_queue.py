"""Queue and call the deliveries of one handler in one worker: waiting deliveries, running calls, and suspects."""

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Sequence
from datetime import datetime
from typing import Any

import structlog

from shardclock import Failed, Outcome
from shardclock.reason import reason_of
from shardclock_server.sql.deliveries.claim import Claim, ClaimedDelivery
from shardclock_server.sql.deliveries.settle import Settlement
from shardclock_server.timers.bucket import Bucket
from shardclock_server.workers.attempts import settlement_of, settlements_without_call
from shardclock_server.workers.context import WorkerContext
from shardclock_server.workers.failure_log import FailureLog
from shardclock_server.workers.handler import HandlerSpec
from shardclock_server.workers.handler_slot import ChunkResult, HandlerSlot
from shardclock_server.workers.process import HandlerProcess
from shardclock_server.workers.task_set import TaskSet

BURST_S = 0.02  # The burst of a rate limit in seconds; timers of the event loop are some milliseconds late.
QUEUED_CHUNKS = 2  # The number of chunks that wait in memory, in addition to chunks that are being called.
IN_HAND_MAX = 5_000  # The limit of deliveries of one handler in one worker.
PAYLOADS_BYTES_MAX = 32 * 2**20  # The limit of the payloads in memory, estimated with the mean size in the last claim.
# When a process is up again, at most this many released deliveries are claimed immediately; a search finds the others.
GIVEN_BACK_MAX = 100


class HandlerQueue:
    """Call one handler for its deliveries, in one process or in several processes."""

    def __init__(
        self, spec: HandlerSpec, context: WorkerContext, *, start: Callable[[HandlerSpec], HandlerProcess]
    ) -> None:
        self.spec = spec
        self.granted = 0  # the number of deliveries that shards may hand over
        self._context = context
        self._stats = context.stats
        self._log = structlog.get_logger().bind(target=spec.target)
        self._failures = FailureLog(self._log)
        # An async function has one process for all calls; a plain function has one process for each concurrent call.
        self._slots = [
            HandlerSlot(spec, start, failed=self._count_failed_start)
            for _ in range(1 if spec.is_async else spec.calls_max)
        ]
        self._waiting: deque[ClaimedDelivery] = deque()
        self._suspects: deque[ClaimedDelivery] = deque()
        self._given_back: list[ClaimedDelivery] = []  # deliveries that were released because no process was up
        self._calls = TaskSet(context.on_fault)
        self._changed = asyncio.Event()
        self._bucket = Bucket(spec.policy.rate_per_s, burst=max(1, int((spec.policy.rate_per_s or 0.0) * BURST_S)))
        self._payload_bytes = 0.0  # the mean payload size in the last claim
        self._wakes_at_s = math.inf
        self._stopped = False

    def __len__(self) -> int:
        """Count the waiting deliveries, the suspects, and the deliveries that are being called."""
        return len(self._waiting) + len(self._suspects) + sum(map(len, self._slots))

    @property
    def is_up(self) -> bool:
        """Return whether a process of the handler is up."""
        return any(slot.is_started for slot in self._slots)

    @property
    def places(self) -> int:
        """Return how many deliveries the next claim may take.

        The number is 0 until half of the queue is free, because a claim of few deliveries costs nearly as much as a
        claim of many deliveries.
        """
        free = self.free
        return free if 2 * free >= self._most - self.granted else 0

    @property
    def free(self) -> int:
        """Return how many more deliveries the queue can hold.

        If no process is up, the result is 1, so that a delivery comes, and `add` then starts a process.
        """
        if not self.is_up:
            return 1 if not len(self) and self._next_start_s() == 0.0 else 0
        return max(0, self._most - len(self) - self.granted)

    @property
    def grantable(self) -> int:
        """Return how many deliveries shards may hand over: at most half of the capacity; the rest is for claims."""
        if self._stopped or self._suspects or not self.is_up or not self._context.permits.may_call:
            return 0
        allowed = self._bucket.available(time.monotonic())
        return max(0, int(min(self._most // 2, self._most - len(self), allowed)))

    @property
    def _most(self) -> int:
        most = min(
            sum(self._capacity(slot) for slot in self._slots if slot.is_started) * (1 + QUEUED_CHUNKS), IN_HAND_MAX
        )
        if (rate := self.spec.policy.rate_per_s) is not None:
            most = min(most, self.spec.policy.batch * (1 + int(rate)))  # the number of calls in one second
        return min(most, int(PAYLOADS_BYTES_MAX / max(1.0, self._payload_bytes)))

    def add(self, deliveries: Sequence[ClaimedDelivery]) -> None:
        """Add claimed deliveries; while no process is up, release them and start a process.

        If the worker held the claims without a process and died, each claim would count as an attempt. After the deaths
        of a few workers the delivery would be a dead letter.
        """
        if not self.is_up and not len(self):
            self._give_back_uncalled(self._without_ended(deliveries))
            self._start_slots(1)
            return
        self._waiting.extend(deliveries)
        self._payload_bytes = sum(len(it.payload or "") for it in deliveries) / max(1, len(deliveries))
        self._changed.set()

    async def run(self) -> None:
        """Call the waiting deliveries until this task is canceled; then kill the processes."""
        try:
            while True:
                self._changed.clear()
                while self._begin_one():
                    pass
                if self._slot_for_next() is None:
                    # Deliveries that wait because of `rate_per_s` don't need a process.
                    allowed = self._bucket.available(time.monotonic())
                    self._start_slots(int(min(len(self._waiting) + len(self._suspects), allowed)))
                await self._changed.wait()
        finally:
            await self._calls.break_off()
            for slot in self._slots:
                slot.end()

    def drop(self, lost: Collection[Claim]) -> None:
        """Drop deliveries that another worker has claimed; running calls continue."""
        for queue in (self._waiting, self._suspects):
            kept = [it for it in queue if it.claim not in lost]
            queue.clear()
            queue.extend(kept)

    def stop(self) -> set[asyncio.Task[None]]:
        """Start no more calls; return the tasks of the running calls."""
        self._stopped = True
        return set(self._calls)

    def give_back(self) -> list[Settlement]:
        """Release all waiting deliveries without counting an attempt.

        A suspect's outcome is unknown: its process died during the call.
        """
        left = [
            *(Settlement(delivery, None, fails=None) for delivery in self._suspects),
            *(Settlement(delivery, None) for delivery in self._waiting),
        ]
        self._suspects.clear()
        self._waiting.clear()
        return left

    def _next_start_s(self) -> float | None:
        """Return the seconds until another process may start; None: a process is starting, or all processes are up."""
        if any(slot.is_starting for slot in self._slots):
            return None
        return min((in_s for slot in self._slots if (in_s := slot.start_in_s) is not None), default=None)

    def _start_slots(self, most: int) -> None:
        """Start the processes that may start now, at most `most` at the same time.

        During the pause after a failed start, start none if a process is up.
        """
        if self._stopped:
            return
        if self.is_up and (pauses := [in_s for slot in self._slots if (in_s := slot.start_in_s)]):
            self._wake_in(min(pauses))
            return
        most -= sum(slot.is_starting for slot in self._slots)
        for slot in [slot for slot in self._slots if slot.start_in_s == 0.0][: max(0, most)]:
            self._calls.begin(self._follow(slot, slot.start()))

    async def _follow(self, slot: HandlerSlot, start: Coroutine[Any, Any, None]) -> None:
        await start
        if slot.is_started:
            self._context.claims.move_back_to(self._given_back)
            self._given_back = []
        self._changed.set()

    def _pause(self) -> None:
        """Wake the loop when the next process may start. If no process is up, release the deliveries."""
        if (in_s := self._next_start_s()) is None:
            return
        if not self.is_up:
            self._context.outcomes.settle(self.give_back())
        self._wake_in(in_s)

    def _give_back_uncalled(self, deliveries: Sequence[ClaimedDelivery]) -> None:
        """Release deliveries without a new due date, so that the next claim reads these deliveries first."""
        self._context.outcomes.settle([Settlement(it, None, delay_s=None) for it in deliveries])
        self._given_back = [*self._given_back, *deliveries][-GIVEN_BACK_MAX:]

    def _count_failed_start(self, reason: str) -> None:
        self._stats.count_failed_start(self.spec.target)
        times = max(slot.failed_starts for slot in self._slots)
        self._log.error("handler does not start", times=times, error=reason)
        self._pause()

    def _capacity(self, slot: HandlerSlot) -> int:
        if self.spec.takes_batch:
            return self.spec.policy.batch * (self.spec.calls_max if self.spec.is_async else 1)
        return max(self.spec.calls_max, 2 * slot.chunk) if self.spec.is_async else slot.chunk

    def _begin_one(self) -> bool:
        """Start one call if a delivery waits and a slot has capacity; return whether another call may start."""
        now_s = time.monotonic()
        if self._stopped:
            return False
        if not self._context.permits.may_call:
            # Release all waiting deliveries: this queue gets no message when the hold ends.
            self._context.outcomes.settle(self.give_back())
            return False
        if not (allowed := self._bucket.available(now_s)):
            self._wake_in(self._bucket.next_at_s(now_s) - now_s)
            return False
        return self._begin_next(allowed)

    def _begin_next(self, allowed: float) -> bool:
        if (slot := self._slot_for_next()) is None:
            return False
        if self._suspects:
            return self._begin(slot, self._context.permits.held([self._suspects.popleft()]), alone=True)
        if not self._waiting:
            return False
        most = self.spec.policy.batch if self.spec.takes_batch else min(slot.chunk, allowed)
        size = int(min(most, len(self._waiting)))
        return self._begin(slot, self._without_ended([self._waiting.popleft() for _ in range(size)]))

    def _slot_for_next(self) -> HandlerSlot | None:
        """Choose the slot with the fewest deliveries; a suspect gets an empty slot."""
        if self._suspects:
            return next((slot for slot in self._slots if slot.is_started and slot.is_empty), None)
        return min((slot for slot in self._slots if slot.has_capacity), key=len, default=None)

    def _begin(self, slot: HandlerSlot, chunk: Sequence[ClaimedDelivery], *, alone: bool = False) -> bool:
        if chunk:
            self._bucket.take(time.monotonic(), self._calls_of(chunk))
            slot.reserve(chunk, alone=alone)
            self._calls.begin(self._call(slot, chunk, alone=alone))
        return True

    def _calls_of(self, chunk: Sequence[ClaimedDelivery]) -> int:
        return min(1, len(chunk)) if self.spec.takes_batch else len(chunk)

    def _without_ended(self, deliveries: Sequence[ClaimedDelivery]) -> list[ClaimedDelivery]:
        held = self._context.permits.held(deliveries)
        if not (ended := settlements_without_call(held, self.spec.policy, now=self._context.clock.now())):
            return held
        self._context.outcomes.settle(list(ended.values()))
        return [it for it in held if it.claim not in ended]

    async def _call(self, slot: HandlerSlot, chunk: Sequence[ClaimedDelivery], *, alone: bool) -> None:
        try:
            result = await slot.call(chunk, now=self._context.clock.now)
            (self._suspects if alone else self._waiting).extendleft(reversed(result.uncalled))
            self._bucket.refund(self._calls_of(chunk) - self._calls_of(result.chunk))
            if not alone:  # a suspect was counted before its first call
                self._stats.count_called(self.spec.target, result.chunk, now=result.began_at)
            self._record(result)
        except Exception as error:  # noqa: BLE001 - a fault of the worker is a failed attempt
            self._log.exception("call broken off")
            why = Failed(f"the worker failed: {reason_of(error)}")
            self._context.outcomes.settle([self._settlement_of(it, why, now=self._context.clock.now()) for it in chunk])
        finally:
            self._changed.set()

    def _record(self, result: ChunkResult) -> None:
        if result.outcomes is None:
            self._suspects.extend(result.chunk)
            return
        now = self._context.clock.now()
        self._failures.record(result)
        self._context.outcomes.settle(
            [
                self._settlement_of(delivery, outcome, now=now, duration_s=result.each_s)
                for delivery, outcome in zip(result.chunk, result.outcomes, strict=True)
            ]
        )

    def _settlement_of(
        self, delivery: ClaimedDelivery, outcome: Outcome, *, now: datetime, duration_s: float = 0.0
    ) -> Settlement:
        policy, jitter = self.spec.policy, self._context.jitter
        return settlement_of(delivery, outcome, policy, now=now, duration_s=duration_s, jitter=jitter)

    def _wake_in(self, seconds: float) -> None:
        """Wake the loop after `seconds`, or earlier if an earlier wake-up is planned.

        After an earlier wake-up, the loop calls this method again.
        """
        loop = asyncio.get_running_loop()
        at_s = loop.time() + max(0.0, seconds)
        if at_s < self._wakes_at_s:
            self._wakes_at_s = at_s
            loop.call_at(at_s, self._wake)

    def _wake(self) -> None:
        self._wakes_at_s = math.inf
        self._changed.set()
