"""The deliveries of one handler in one worker: those that wait, those that are being called, and the suspects."""

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Sequence
from datetime import datetime
from typing import Any

import structlog

from shardclock import Failed, Outcome
from shardclock_server.keepers.loops import one_line
from shardclock_server.sql.deliveries.claim import Claim, ClaimedDelivery
from shardclock_server.sql.deliveries.settle import Settlement
from shardclock_server.timers.bucket import Bucket
from shardclock_server.workers.attempts import ended_uncalled, settlement_of
from shardclock_server.workers.calls import Calls
from shardclock_server.workers.context import WorkerContext
from shardclock_server.workers.handler import HandlerSpec
from shardclock_server.workers.process import HandlerProcess
from shardclock_server.workers.seat import Called, Seat

TELL_S = 1.0  # between two log lines about attempts that failed: a handler may fail thousands of times a second
BURST_S = 0.02  # of calls that a rate gives at once: a timer of the loop is some milliseconds late
QUEUED_CHUNKS = 2  # that wait in memory beside those in progress
IN_HAND_MAX = 5_000  # of one handler, in one worker
PAYLOADS_BYTES_MAX = 32 * 2**20  # of these, if they are like those of the last claim
GIVEN_BACK_MAX = 100  # that are claimed again as soon as a process is up; a search finds the others


class HandlerQueue:
    """Call one handler for its deliveries, in as many processes as it may have."""

    def __init__(
        self, spec: HandlerSpec, context: WorkerContext, *, start: Callable[[HandlerSpec], HandlerProcess]
    ) -> None:
        self.spec = spec
        self._context = context
        self._stats = context.stats
        self._log = structlog.get_logger().bind(target=spec.target)
        # An async function shares its process with its other calls; a plain one has the process to itself.
        self._seats = [
            Seat(spec, start, failed=self._count_failed_start) for _ in range(1 if spec.is_async else spec.calls_max)
        ]
        self._waiting: deque[ClaimedDelivery] = deque()
        self._suspects: deque[ClaimedDelivery] = deque()
        self._given_back: list[ClaimedDelivery] = []  # for want of a process
        self._calls = Calls(context.broken)
        self._changed = asyncio.Event()
        self._bucket = Bucket(spec.policy.rate_per_s, burst=max(1, int((spec.policy.rate_per_s or 0.0) * BURST_S)))
        self._payload_bytes = 0.0  # of one delivery, in the mean of the last claim
        self._tell_at_s = 0.0
        self._wakes_at_s = math.inf
        self._stopped = False

    def __len__(self) -> int:
        """Count the deliveries in hand."""
        return len(self._waiting) + len(self._suspects) + sum(map(len, self._seats))

    @property
    def is_up(self) -> bool:
        """Say whether a process is up, to call the handler in."""
        return any(seat.is_started for seat in self._seats)

    @property
    def places(self) -> int:
        """Return how many more deliveries are to be claimed.

        A claim costs nearly the same for few as for many, so it waits until half of the places are free.
        """
        free = self.free
        return free if 2 * free >= self._most else 0

    @property
    def free(self) -> int:
        """Return how many more deliveries it may have; without a process one, for which `add` starts it."""
        if not self.is_up:
            return 1 if not len(self) and self._next_start_s() == 0.0 else 0
        return max(0, self._most - len(self))

    @property
    def _most(self) -> int:
        most = min(sum(self._room(seat) for seat in self._seats if seat.is_started) * (1 + QUEUED_CHUNKS), IN_HAND_MAX)
        if (rate := self.spec.policy.rate_per_s) is not None:
            most = min(most, self.spec.policy.batch * (1 + int(rate)))  # a second's worth
        return min(most, int(PAYLOADS_BYTES_MAX / max(1.0, self._payload_bytes)))

    def add(self, deliveries: Sequence[ClaimedDelivery]) -> None:
        """Take deliveries that were claimed; without a process to call them, give them back and start one.

        If the worker dies before its process is up, what it has in hand has lost an attempt without a call. After some
        such workers that would be a dead letter.
        """
        if not self.is_up and not len(self):
            self._give_back_uncalled(self._still_wanted(deliveries))
            self._start_seats(1)
            return
        self._waiting.extend(deliveries)
        self._payload_bytes = sum(len(it.payload or "") for it in deliveries) / max(1, len(deliveries))
        self._changed.set()

    async def run(self) -> None:
        """Call what waits, until canceled; then end the processes."""
        try:
            while True:
                self._changed.clear()
                while self._begin_one():
                    pass
                if self._seat_for_next() is None:
                    # What waits for the rate needs no process.
                    allowed = self._bucket.room(time.monotonic())
                    self._start_seats(int(min(len(self._waiting) + len(self._suspects), allowed)))
                await self._changed.wait()
        finally:
            await self._calls.break_off()
            for seat in self._seats:
                seat.end()

    def drop(self, lost: Collection[Claim]) -> None:
        """Forget what waits and is another worker's now; a call that is under way can't be taken back."""
        for queue in (self._waiting, self._suspects):
            kept = [it for it in queue if it.claim not in lost]
            queue.clear()
            queue.extend(kept)

    def stop(self) -> set[asyncio.Task[None]]:
        """Begin no more calls; return those that are under way."""
        self._stopped = True
        return set(self._calls)

    def give_back(self) -> list[Settlement]:
        """Give up what waits: attempts that did not take place. Of the suspects' nobody knows how they ended."""
        left = [
            *(Settlement(delivery, None, fails=None) for delivery in self._suspects),
            *(Settlement(delivery, None) for delivery in self._waiting),
        ]
        self._suspects.clear()
        self._waiting.clear()
        return left

    def _next_start_s(self) -> float | None:
        """Return the seconds until a further process may be started; None: one starts, or all are up."""
        if any(seat.is_starting for seat in self._seats):
            return None
        return min((in_s for seat in self._seats if (in_s := seat.start_in_s) is not None), default=None)

    def _start_seats(self, most: int) -> None:
        """Start processes, until so many start; beside one that is up, none while another pauses."""
        if self._stopped:
            return
        if self.is_up and (pauses := [in_s for seat in self._seats if (in_s := seat.start_in_s)]):
            self._wake_in(min(pauses))
            return
        most -= sum(seat.is_starting for seat in self._seats)
        for seat in [seat for seat in self._seats if seat.start_in_s == 0.0][: max(0, most)]:
            self._calls.begin(self._follow(seat, seat.start()))

    async def _follow(self, seat: Seat, start: Coroutine[Any, Any, None]) -> None:
        await start
        if seat.is_started:
            self._context.claims.go_back_to(self._given_back)
            self._given_back = []
        self._changed.set()

    def _pause(self) -> None:
        """Go on when the next process may be started; if none is up, what waits is better off elsewhere."""
        if (in_s := self._next_start_s()) is None:
            return
        if not self.is_up:
            self._context.outcomes.settle(self.give_back())
        self._wake_in(in_s)

    def _give_back_uncalled(self, deliveries: Sequence[ClaimedDelivery]) -> None:
        """Give deliveries back as they were: they stay due since when they were, and come first again."""
        self._context.outcomes.settle([Settlement(it, None, delay_s=None) for it in deliveries])
        self._given_back = [*self._given_back, *deliveries][-GIVEN_BACK_MAX:]

    def _count_failed_start(self, why: str) -> None:
        self._stats.count_failed_start(self.spec.target)
        times = max(seat.failed_starts for seat in self._seats)
        self._log.error("handler does not start", times=times, error=why)
        self._pause()

    def _room(self, seat: Seat) -> int:
        if self.spec.takes_batch:
            return self.spec.policy.batch * (self.spec.calls_max if self.spec.is_async else 1)
        return max(self.spec.calls_max, 2 * seat.chunk) if self.spec.is_async else seat.chunk

    def _begin_one(self) -> bool:
        """Begin one call if something waits and there is room for it."""
        now_s = time.monotonic()
        if self._stopped:
            return False
        if not self._context.permits.may_call:
            # Nothing stays here: nobody would say when the hold is over.
            self._context.outcomes.settle(self.give_back())
            return False
        if not (allowed := self._bucket.room(now_s)):
            self._wake_in(self._bucket.next_at_s(now_s) - now_s)
            return False
        return self._begin_next(allowed)

    def _begin_next(self, allowed: float) -> bool:
        if (seat := self._seat_for_next()) is None:
            return False
        if self._suspects:
            return self._begin(seat, self._context.permits.held([self._suspects.popleft()]), alone=True)
        if not self._waiting:
            return False
        most = self.spec.policy.batch if self.spec.takes_batch else min(seat.chunk, allowed)
        size = int(min(most, len(self._waiting)))
        return self._begin(seat, self._still_wanted([self._waiting.popleft() for _ in range(size)]))

    def _seat_for_next(self) -> Seat | None:
        """Choose the seat of the next call, with the fewest beside it; a suspect is called with nothing beside it."""
        if self._suspects:
            return next((seat for seat in self._seats if seat.is_started and seat.is_empty), None)
        return min((seat for seat in self._seats if seat.has_room), key=len, default=None)

    def _begin(self, seat: Seat, chunk: Sequence[ClaimedDelivery], *, alone: bool = False) -> bool:
        if chunk:
            self._bucket.take(time.monotonic(), self._calls_of(chunk))
            seat.take(chunk, alone=alone)
            self._calls.begin(self._call(seat, chunk, alone=alone))
        return True

    def _calls_of(self, chunk: Sequence[ClaimedDelivery]) -> int:
        return min(1, len(chunk)) if self.spec.takes_batch else len(chunk)

    def _still_wanted(self, deliveries: Sequence[ClaimedDelivery]) -> list[ClaimedDelivery]:
        held = self._context.permits.held(deliveries)
        if not (ended := ended_uncalled(held, self.spec.policy, now=self._context.clock.now())):
            return held
        self._context.outcomes.settle(list(ended.values()))
        return [it for it in held if it.claim not in ended]

    async def _call(self, seat: Seat, chunk: Sequence[ClaimedDelivery], *, alone: bool) -> None:
        try:
            called = await seat.call(chunk, now=self._context.clock.now)
            (self._suspects if alone else self._waiting).extendleft(reversed(called.uncalled))
            self._bucket.put_back(self._calls_of(chunk) - self._calls_of(called.chunk))
            if not alone:  # a suspect has been called before
                self._stats.count_called(self.spec.target, called.chunk, now=called.began_at)
            self._learn(called)
        except Exception as error:  # noqa: BLE001 - a fault of ours costs these an attempt: they must not stay in hand
            self._log.exception("call broken off")
            why = Failed(f"the worker failed: {one_line(error)}")
            self._context.outcomes.settle([self._judged(it, why, now=self._context.clock.now()) for it in chunk])
        finally:
            self._changed.set()

    def _learn(self, called: Called) -> None:
        if called.outcomes is None:
            self._suspects.extend(called.chunk)
            return
        now = self._context.clock.now()
        self._tell(called)
        self._context.outcomes.settle(
            [
                self._judged(delivery, outcome, now=now, duration_s=called.each_s)
                for delivery, outcome in zip(called.chunk, called.outcomes, strict=True)
            ]
        )

    def _judged(
        self, delivery: ClaimedDelivery, outcome: Outcome, *, now: datetime, duration_s: float = 0.0
    ) -> Settlement:
        policy, jitter = self.spec.policy, self._context.jitter
        return settlement_of(delivery, outcome, policy, now=now, duration_s=duration_s, jitter=jitter)

    def _tell(self, called: Called) -> None:
        """Log where a handler failed: the database keeps the reason alone. One failure stands for those of a second."""
        if time.monotonic() < self._tell_at_s:
            return
        for delivery, outcome in zip(called.chunk, called.outcomes or (), strict=False):
            if isinstance(outcome, Failed):
                self._tell_at_s = time.monotonic() + TELL_S
                self._log.warning(
                    "attempt failed",
                    timer_key=delivery.timer_key,
                    attempt=delivery.failed_attempts + 1,
                    reason=outcome.reason,
                    traceback=outcome.traceback,
                )
                return

    def _wake_in(self, seconds: float) -> None:
        """Go on after a time, or sooner if that was asked for: then what is to be waited for is judged anew."""
        loop = asyncio.get_running_loop()
        at_s = loop.time() + max(0.0, seconds)
        if at_s < self._wakes_at_s:
            self._wakes_at_s = at_s
            loop.call_at(at_s, self._wake)

    def _wake(self) -> None:
        self._wakes_at_s = math.inf
        self._changed.set()
