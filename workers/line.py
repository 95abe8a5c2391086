"""The deliveries of one handler in one worker: those that wait, those that are being called, and the suspects."""

import asyncio
import random
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from datetime import datetime

import structlog

from keepers.loops import one_line
from shardclock import Failed
from sql.backoff import Backoff
from sql.deliveries.claim import Claim, ClaimedDelivery
from sql.deliveries.settle import Settlement
from workers.attempts import Jitter, ended_uncalled, settlement_of
from workers.bucket import Bucket
from workers.calls import Broken, Calls
from workers.handler import HandlerSpec
from workers.process import HandlerProcess
from workers.seat import Called, CannotStart, Seat
from workers.stats import WorkerStats

TELL_S = 1.0  # between two log lines about attempts that failed: a handler may fail thousands of times a second
QUEUED_CHUNKS = 2  # that wait in memory beside those in progress
IN_HAND_MAX = 5_000  # of one handler, in one worker
PAYLOADS_BYTES_MAX = 32 * 2**20  # of these, if they are like those of the last claim
RESTART = Backoff(2.0, 30.0)


class Line:
    """Call one handler for its deliveries, in as many processes as it may have."""

    def __init__(
        self,
        spec: HandlerSpec,
        *,
        start: Callable[[HandlerSpec], HandlerProcess],
        settle: Callable[[Sequence[Settlement]], None],
        held: Callable[[Sequence[ClaimedDelivery]], list[ClaimedDelivery]],
        now: Callable[[], datetime],
        stats: WorkerStats,
        broken: Broken,
        jitter: Jitter = random.uniform,
    ) -> None:
        self.spec = spec
        self._jitter = jitter
        self._settle = settle
        self._held = held
        self._now = now
        self._stats = stats
        self._log = structlog.get_logger().bind(target=spec.target)
        # An async function shares its process with its other calls; a plain one has the process to itself.
        self._seats = [Seat(spec, start) for _ in range(1 if spec.is_async else spec.calls_max)]
        self._waiting: deque[ClaimedDelivery] = deque()
        self._suspects: deque[ClaimedDelivery] = deque()
        self._calls = Calls(broken)
        self._changed = asyncio.Event()
        self._bucket = Bucket(spec.policy.rate_per_s)
        self._payload_bytes = 0.0  # of one delivery, in the mean of the last claim
        self._failed_starts = 0
        self._is_starting = False
        self._start_at_s = 0.0
        self._tell_at_s = 0.0
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
        """Return how many more deliveries it takes: one, which tries it, if no process is up or one doesn't start."""
        if self._failed_starts or not self.is_up:
            return 0 if self._is_starting or len(self) or time.monotonic() < self._start_at_s else 1
        most = min(sum(self._room(seat) for seat in self._seats) * (1 + QUEUED_CHUNKS), IN_HAND_MAX)
        if (rate := self.spec.policy.rate_per_s) is not None:
            most = min(most, self.spec.policy.batch * (1 + int(rate)))  # a second's worth
        most = min(most, int(PAYLOADS_BYTES_MAX / max(1.0, self._payload_bytes)))
        free = most - len(self)
        # A claim costs nearly the same for few as for many, so it waits until half of the places are free.
        return free if 2 * free >= most else 0

    def add(self, deliveries: Sequence[ClaimedDelivery]) -> None:
        """Take deliveries that were claimed; without a process to call them, give them back and start one.

        If the worker dies before its process is up, what it has in hand has lost an attempt without a call. After some
        such workers that would be a dead letter.
        """
        if not self.is_up and not len(self):
            self._settle([Settlement(it, None) for it in self._still_wanted(deliveries)])
            if not self._is_starting:
                self._is_starting = True
                self._calls.begin(self._start_first())
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
        """Give up what waits: attempts that did not take place."""
        left = [*self._suspects, *self._waiting]
        self._suspects.clear()
        self._waiting.clear()
        return [Settlement(delivery, None) for delivery in left]

    async def _start_first(self) -> None:
        try:
            await self._seats[0].start()
            self._failed_starts = 0
        except CannotStart as error:
            self._wait_after_failed_start(str(error))
        finally:
            self._is_starting = False

    def _room(self, seat: Seat) -> int:
        if self.spec.takes_batch:
            return self.spec.policy.batch * (self.spec.calls_max if self.spec.is_async else 1)
        return max(self.spec.calls_max, 2 * seat.chunk) if self.spec.is_async else seat.chunk

    def _begin_one(self) -> bool:
        """Begin one call if something waits and there is room for it."""
        now_s = time.monotonic()
        if self._stopped or now_s < self._start_at_s:
            return False
        if not (allowed := self._bucket.room(now_s)):
            self._wake_at(self._bucket.next_at_s(now_s))
            return False
        if self._suspects:
            # A suspect is called with nothing beside it.
            seat = next((seat for seat in self._seats if seat.is_empty), None)
            if seat is None:
                return False
            return self._begin(seat, self._held([self._suspects.popleft()]), alone=True)
        seat = next((seat for seat in self._seats if seat.has_room), None)
        if seat is None or not self._waiting:
            return False
        most = self.spec.policy.batch if self.spec.takes_batch else min(seat.chunk, allowed)
        size = int(min(most, len(self._waiting)))
        return self._begin(seat, self._still_wanted([self._waiting.popleft() for _ in range(size)]))

    def _begin(self, seat: Seat, chunk: Sequence[ClaimedDelivery], *, alone: bool = False) -> bool:
        if chunk:
            self._bucket.take(time.monotonic(), self._calls_of(chunk))
            seat.take(chunk, alone=alone)
            self._calls.begin(self._call(seat, chunk, alone=alone))
        return True

    def _calls_of(self, chunk: Sequence[ClaimedDelivery]) -> int:
        return 1 if self.spec.takes_batch else len(chunk)

    def _still_wanted(self, deliveries: Sequence[ClaimedDelivery]) -> list[ClaimedDelivery]:
        held = self._held(deliveries)
        if not (ended := ended_uncalled(held, self.spec.policy, now=self._now())):
            return held
        self._settle(list(ended.values()))
        return [it for it in held if it.claim not in ended]

    async def _call(self, seat: Seat, chunk: Sequence[ClaimedDelivery], *, alone: bool) -> None:
        try:
            called = await seat.call(chunk, now=self._now)
            self._waiting.extendleft(reversed(called.uncalled))
            if not alone:  # a suspect has been called before
                self._stats.count_called(self.spec.target, called.chunk, now=called.began_at)
            self._learn(called)
            self._failed_starts = 0
        except CannotStart as error:
            self._bucket.put_back(self._calls_of(chunk))
            self._settle([*(Settlement(it, None) for it in chunk), *self.give_back()])
            self._wait_after_failed_start(str(error))
        except Exception as error:  # noqa: BLE001 - a fault of ours costs these an attempt: they must not stay in hand
            self._log.exception("call broken off")
            why, now = Failed(f"the worker failed: {one_line(error)}"), self._now()
            self._settle([settlement_of(it, why, self.spec.policy, now=now, jitter=self._jitter) for it in chunk])
        finally:
            self._changed.set()

    def _learn(self, called: Called) -> None:
        if called.outcomes is None:
            self._suspects.extend(called.chunk)
            return
        now = self._now()
        self._tell(called)
        self._settle(
            [
                settlement_of(
                    delivery, outcome, self.spec.policy, now=now, duration_s=called.each_s, jitter=self._jitter
                )
                for delivery, outcome in zip(called.chunk, called.outcomes, strict=True)
            ]
        )

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

    def _wake_at(self, moment_s: float) -> None:
        asyncio.get_running_loop().call_later(max(0.0, moment_s - time.monotonic()), self._changed.set)

    def _wait_after_failed_start(self, why: str) -> None:
        self._failed_starts += 1
        self._stats.count_failed_start(self.spec.target)
        self._start_at_s = time.monotonic() + RESTART.pause_s(self._failed_starts)
        self._wake_at(self._start_at_s)
        self._log.error("handler does not start", times=self._failed_starts, error=why)
