"""One process of a handler, and its calls.

A message to the process contains a chunk of deliveries. A message costs more than a short call. If a call takes
microseconds, a chunk therefore has hundreds of deliveries; if a call takes milliseconds, a chunk has one delivery. The
process, not the slot, limits how many calls run concurrently.

If the process dies or hangs during several calls, the delivery of each call may be the cause. The slot returns these
deliveries as suspects. Each suspect is then called without other deliveries, and its attempt fails if the process dies
again. The death of an idle process is not a failed attempt. One call to the process is always pending, so that the slot
notices the death of an idle process.

The start of a process takes seconds, because the process imports the user's code. If the start fails, or the process
ends before its first call, the slot pauses before the next start; each further failure doubles the pause. During the
pause the other slots of the handler continue.
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

CHUNK_S = 0.02  # the target duration of a chunk
CHUNK_MAX = 500
GRACE_S = 1.0  # The time from the timeout of a handler until its process is killed.
START_S = 60.0  # The longest permitted import of the user's code.
RESTART = Backoff(2.0, 30.0)


@dataclass(frozen=True, slots=True)
class ChunkResult:
    """The result of a chunk.

    shape:   `outcomes` has an outcome for each delivery of `chunk`, or is None if all deliveries of the chunk are
             suspects. `uncalled` has the deliveries that were not called, because the handler has become slow or its
             process has ended
    """

    chunk: Sequence[ClaimedDelivery]
    outcomes: Sequence[Outcome] | None
    each_s: float
    began_at: datetime
    uncalled: Sequence[ClaimedDelivery] = ()


class HandlerSlot:
    """Start, call and kill one process of a handler; `failed` receives the reason of a failed start."""

    def __init__(
        self, spec: HandlerSpec, start: Callable[[HandlerSpec], HandlerProcess], *, failed: Callable[[str], None]
    ) -> None:
        self.chunk = 1
        self.failed_starts = 0  # the number of consecutive failed starts
        self.is_starting = False
        self._spec = spec
        self._start = start
        self._failed = failed
        self._process: HandlerProcess | None = None
        self._started = False
        self._has_called = False
        self._start_at_s = float("-inf")
        self._watching: asyncio.Task[None] | None = None
        self._calls = 0
        self._deliveries = 0
        self._alone = False
        self._is_cut_off = False  # the socket is closed, and the calls wait for Ray's report of the end

    def __len__(self) -> int:
        """Count the deliveries of the running calls."""
        return self._deliveries

    @property
    def is_empty(self) -> bool:
        """Return whether no call is running."""
        return not self._calls

    @property
    def is_started(self) -> bool:
        """Return whether the process is up and can be called."""
        return self._started

    @property
    def start_in_s(self) -> float | None:
        """Return the seconds until a process may be started; None: a process is up or starting."""
        if self._started or self.is_starting:
            return None
        return max(0.0, self._start_at_s - time.monotonic())

    @property
    def has_capacity(self) -> bool:
        """Return whether another chunk may be called.

        Most handlers may have two chunks: one chunk is called while the other chunk is settled.
        """
        if not self._started or self._is_cut_off:
            return False
        if self._alone:
            return not self._calls
        if not self._spec.is_async:
            return self._calls < (1 if self.chunk == 1 else 2)
        if self._spec.takes_batch:
            return self._calls < self._spec.calls_max
        return not self._calls or self._deliveries + self.chunk <= max(self._spec.calls_max, 2 * self.chunk)

    def reserve(self, chunk: Sequence[ClaimedDelivery], *, alone: bool) -> None:
        """Reserve capacity for a chunk before `call`; a chunk that is `alone` excludes other calls."""
        self._calls += 1
        self._deliveries += len(chunk)
        self._alone = alone

    async def call(self, chunk: Sequence[ClaimedDelivery], *, now: Callable[[], datetime]) -> ChunkResult:
        """Call the handler for each delivery of a reserved chunk; if the process has ended, make no call."""
        try:
            if self._process is None:
                return ChunkResult((), (), 0.0, now(), uncalled=chunk)
            return await self._call(self._process, chunk, began_at=now())
        finally:
            self._calls -= 1
            self._deliveries -= len(chunk)
            self._alone = False
            if self._is_cut_off and self.is_empty:
                self._end_idle("nothing reaches it")

    def start(self) -> Coroutine[Any, Any, None]:
        """Return the coroutine that starts the process.

        The state is "starting" from this call on, before the coroutine runs. A failed start is followed by a pause.
        """
        self.is_starting = True  # set now, because the coroutine may run later
        return self._start_process()

    def end(self) -> None:
        """Kill the process, even during calls."""
        if self._process is not None:
            self._process.kill()
            self._process = None
            self._started = self._is_cut_off = False
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None

    async def _start_process(self) -> None:
        try:
            process = self._process = self._start(self._spec)
            async with asyncio.timeout(START_S):
                await process.ready()
        except TimeoutError:
            self._fail(f"the process was not ready within {START_S:g} s")
        except Exception as error:  # noqa: BLE001 - the user's code may raise any error at its import
            self._fail(str(error) or type(error).__name__)
        else:
            self._started, self._has_called = True, False
            self._watching = asyncio.create_task(self._watch_process(process))
        finally:
            self.is_starting = False

    async def _call(
        self, process: HandlerProcess, chunk: Sequence[ClaimedDelivery], *, began_at: datetime
    ) -> ChunkResult:
        began_s, had_called = time.monotonic(), self._has_called
        self._has_called = True
        try:
            answer = await self._answer(process, chunk)
        except NotCalled:
            # The deliveries were not called, so no attempt has failed. The other calls of this process report the cause
            # of its end.
            if self._process is process:
                self._is_cut_off, self._has_called = True, had_called
            return ChunkResult((), (), 0.0, began_at, uncalled=chunk)
        except TimeoutError:
            why = Failed(f"the call did not end within {self._spec.policy.timeout_s:g} s", "timeout")
            return self._lose(process, chunk, why, began_s, began_at)
        except Exception as error:  # noqa: BLE001 - the deliveries must get an outcome after any error
            return self._lose(process, chunk, Failed(str(error) or type(error).__name__), began_s, began_at)
        count = len(answer.outcomes)
        self.failed_starts = 0
        self.chunk = next_chunk(self.chunk, answer.took_s, count)
        return ChunkResult(chunk[:count], answer.outcomes, answer.took_s / count, began_at, uncalled=chunk[count:])

    async def _answer(self, process: HandlerProcess, chunk: Sequence[ClaimedDelivery]) -> CallResult:
        """Wait for the answer of a process.

        If calls queue in the process, the timeout is twice as long, because an earlier call may last until its own
        timeout. After half of this timeout the process must answer a ping, because one async call may block the event
        loop for all calls.

        errors:  TimeoutError  the process hangs
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
        """Return whether calls queue in the process, because the process has reached its limit of concurrent calls."""
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
    ) -> ChunkResult:
        killed_for_another = self._process is not process
        if not killed_for_another:
            self.end()
        self.chunk = 1
        took_s = time.monotonic() - began_s
        if killed_for_another or self._deliveries > 1:
            return ChunkResult(chunk, None, took_s, began_at)
        return ChunkResult(chunk, [why], took_s, began_at)

    def _fail(self, why: str) -> None:
        self.end()
        self.is_starting = False
        self.failed_starts += 1
        self._start_at_s = time.monotonic() + RESTART.pause_s(self.failed_starts)
        self._failed(why)

    async def _watch_process(self, process: HandlerProcess) -> None:
        """Handle the end of an idle process. During calls, the errors of the calls report the end."""
        try:
            await process.gone()
        except Exception as error:  # noqa: BLE001 - no other task watches the process
            if self._process is not process or not self.is_empty:
                return
            self._end_idle(str(error))

    def _end_idle(self, how: str) -> None:
        """Kill an idle process; if the process never had a call, count a failed start."""
        if self._has_called:
            self.end()
        else:
            self._fail(f"the process ended before its first call: {how}")


def next_chunk(size: int, took_s: float, deliveries: int) -> int:
    """Return the size of the next chunk: at most 2 × `size`, and less if the last `deliveries` calls were slow."""
    each_s = took_s / max(1, deliveries)
    return max(1, min(CHUNK_MAX, size * 2, int(CHUNK_S / max(each_s, 1e-6))))
