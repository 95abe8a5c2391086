"""One process of a handler, and the calls in it.

Deliveries are called in chunks. A handler that takes milliseconds is called for one delivery at a time. One that takes
microseconds gets hundreds with one message, because a message costs more than the call. The process itself keeps to the
handler's concurrency, so a chunk may be larger.

If the process dies or hangs while several deliveries are being called, nobody knows which of them was the cause. The
seat gives them back as suspects. Each is then called alone: the one that dies alone is guilty, and only its attempt
fails. If it dies while nothing is being called, nobody is: a call to it is pending for as long as it lives, so that the
seat knows.

To start a process takes seconds, because it imports the user's code. One that does not start, or ends before its first
call, is started again after a pause, which doubles. Meanwhile its seat has no room, and the other seats go on.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from shardclock import Failed, Outcome
from shardclock.backoff import Backoff
from shardclock_server.sql.deliveries.claim import ClaimedDelivery
from shardclock_server.workers.handler import HandlerSpec
from shardclock_server.workers.process import CallResult, HandlerProcess
from shardclock_server.workers.user_process import NotCalled

CHUNK_S = 0.02  # a chunk is as large as is called in about this time
CHUNK_MAX = 500
GRACE_S = 1.0  # beyond the handler's own timeout, until its process is killed
START_S = 60.0  # for the import of the user's code
RESTART = Backoff(2.0, 30.0)


@dataclass(frozen=True, slots=True)
class Called:
    """What became of a chunk: an outcome for each delivery, or none if it must be called again, one at a time.

    Those in `uncalled` are not in `chunk`: the handler has become slow, or its process had ended before the call.
    """

    chunk: Sequence[ClaimedDelivery]
    outcomes: Sequence[Outcome] | None
    each_s: float
    began_at: datetime
    uncalled: Sequence[ClaimedDelivery] = ()


class Seat:
    """Keep one process of a handler, and call it; `failed` is told why a process did not come up."""

    def __init__(
        self, spec: HandlerSpec, start: Callable[[HandlerSpec], HandlerProcess], *, failed: Callable[[str], None]
    ) -> None:
        self.chunk = 1
        self.failed_starts = 0  # one after the other
        self.is_starting = False
        self._spec = spec
        self._start = start
        self._failed = failed
        self._process: HandlerProcess | None = None
        self._started = False
        self._has_called = False
        self._start_at_s = float("-inf")
        self._watch: asyncio.Task[None] | None = None
        self._calls = 0
        self._deliveries = 0
        self._alone = False
        self._is_cut_off = False  # nothing reaches its process, and calls of it wait until Ray says how it ended

    def __len__(self) -> int:
        """Count the deliveries that are being called."""
        return self._deliveries

    @property
    def is_empty(self) -> bool:
        """Say whether nothing is being called."""
        return not self._calls

    @property
    def is_started(self) -> bool:
        """Say whether its process is up: a call begins at once."""
        return self._started

    @property
    def start_in_s(self) -> float | None:
        """Return the seconds until a process may be started; None: there is one, or it starts."""
        if self._started or self.is_starting:
            return None
        return max(0.0, self._start_at_s - time.monotonic())

    @property
    def has_room(self) -> bool:
        """Say whether it takes another chunk: while one is settled, the next can already be called."""
        if not self._started or self._is_cut_off:
            return False
        if self._alone:
            return not self._calls
        if not self._spec.is_async:
            return self._calls < (1 if self.chunk == 1 else 2)
        if self._spec.takes_batch:
            return self._calls < self._spec.calls_max
        return not self._calls or self._deliveries + self.chunk <= max(self._spec.calls_max, 2 * self.chunk)

    def take(self, chunk: Sequence[ClaimedDelivery], *, alone: bool) -> None:
        """Reserve room for a chunk, which `call` then calls; beside one that is alone nothing else is called."""
        self._calls += 1
        self._deliveries += len(chunk)
        self._alone = alone

    async def call(self, chunk: Sequence[ClaimedDelivery], *, now: Callable[[], datetime]) -> Called:
        """Call the handler for each delivery of a chunk that was taken; without a process, for none of them."""
        try:
            if self._process is None:
                return Called((), (), 0.0, now(), uncalled=chunk)
            return await self._call(self._process, chunk, began_at=now())
        finally:
            self._calls -= 1
            self._deliveries -= len(chunk)
            self._alone = False
            if self._is_cut_off and self.is_empty:
                self._end_idle("nothing reaches it")

    def start(self) -> Coroutine[Any, Any, None]:
        """Return what starts its process, which must not be there; from now on the seat counts as starting.

        If the process does not come up, the next start waits for a pause.
        """
        self.is_starting = True  # from now on, not from when the coroutine's task has its first turn
        return self._bring_up()

    def end(self) -> None:
        """End the process, whatever it does."""
        if self._process is not None:
            self._process.kill()
            self._process = None
            self._started = self._is_cut_off = False
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None

    async def _bring_up(self) -> None:
        try:
            process = self._process = self._start(self._spec)
            async with asyncio.timeout(START_S):
                await process.ready()
        except TimeoutError:
            self._fail(f"it was not ready within {START_S:g} s")
        except Exception as error:  # noqa: BLE001 - whatever the user's code raised where it was imported
            self._fail(str(error) or type(error).__name__)
        else:
            self._started, self._has_called = True, False
            self._watch = asyncio.create_task(self._watch_process(process))
        finally:
            self.is_starting = False

    async def _call(self, process: HandlerProcess, chunk: Sequence[ClaimedDelivery], *, began_at: datetime) -> Called:
        began_s, had_called = time.monotonic(), self._has_called
        self._has_called = True
        try:
            answer = await self._answer(process, chunk)
        except NotCalled:
            # Nobody is to blame for that. What else is being called in it, if anything, hears how it ended.
            if self._process is process:
                self._is_cut_off, self._has_called = True, had_called
            return Called((), (), 0.0, began_at, uncalled=chunk)
        except TimeoutError:
            why = Failed(f"it did not end within {self._spec.policy.timeout_s:g} s", "timeout")
            return self._lose(process, chunk, why, began_s, began_at)
        except Exception as error:  # noqa: BLE001 - whatever it is, its deliveries must not stay in hand for ever
            return self._lose(process, chunk, Failed(str(error) or type(error).__name__), began_s, began_at)
        count = len(answer.outcomes)
        self.failed_starts = 0
        self.chunk = next_chunk(self.chunk, answer.took_s, count)
        return Called(chunk[:count], answer.outcomes, answer.took_s / count, began_at, uncalled=chunk[count:])

    async def _answer(self, process: HandlerProcess, chunk: Sequence[ClaimedDelivery]) -> CallResult:
        """Wait for the answer of a process; once the timeout is over, only while there is a reason to.

        In a process in which calls wait for their turn, those before may need a timeout, too. It is alive if it answers
        something else then: an async call that blocks its loop would keep all others waiting.

        errors:  TimeoutError  it hangs
        """
        turns = 2 if self._is_crowded else 1
        call = asyncio.ensure_future(process.call(chunk))
        try:
            for turn in range(1, turns + 1):
                ended, _ = await asyncio.wait([call], timeout=self._spec.policy.timeout_s + GRACE_S)
                if ended:
                    return await call
                if turn < turns:
                    async with asyncio.timeout(GRACE_S):
                        await process.ready()
            raise TimeoutError
        finally:
            call.cancel()

    @property
    def _is_crowded(self) -> bool:
        """Say whether calls wait for their turn in the process."""
        if not self._spec.is_async:
            return self._calls > 1
        return (self._calls if self._spec.takes_batch else self._deliveries) > self._spec.calls_max

    def _lose(
        self,
        process: HandlerProcess,
        chunk: Sequence[ClaimedDelivery],
        why: Failed,
        began_s: float,
        began_at: datetime,
    ) -> Called:
        killed_for_another = self._process is not process
        if not killed_for_another:
            self.end()
        self.chunk = 1
        took_s = time.monotonic() - began_s
        if killed_for_another or self._deliveries > 1:
            return Called(chunk, None, took_s, began_at)
        return Called(chunk, [why], took_s, began_at)

    def _fail(self, why: str) -> None:
        self.end()
        self.is_starting = False
        self.failed_starts += 1
        self._start_at_s = time.monotonic() + RESTART.pause_s(self.failed_starts)
        self._failed(why)

    async def _watch_process(self, process: HandlerProcess) -> None:
        """Forget a process that ends while nothing is being called; else the calls tell what became of them."""
        try:
            await process.gone()
        except Exception as error:  # noqa: BLE001 - whatever it is, nobody would hear of the process's end any more
            if self._process is not process or not self.is_empty:
                return
            self._end_idle(str(error))

    def _end_idle(self, how: str) -> None:
        """End a process in which nothing is being called; one that nothing was ever called in has not come up."""
        if self._has_called:
            self.end()
        else:
            self._fail(f"it ended before its first call: {how}")


def next_chunk(size: int, took_s: float, deliveries: int) -> int:
    """Return the next chunk's size, after `deliveries` were called in `took_s`: at most twice the last one's."""
    each_s = took_s / max(1, deliveries)
    return max(1, min(CHUNK_MAX, size * 2, int(CHUNK_S / max(each_s, 1e-6))))
