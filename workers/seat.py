"""One process of a handler, and the calls in it.

Deliveries are called in chunks. A handler that takes milliseconds is called for one delivery at a time. One that takes
microseconds gets hundreds with one message, because a message costs more than the call. The process itself keeps to the
handler's concurrency, so a chunk may be larger.

If the process dies or hangs while several deliveries are being called, nobody knows which of them was the cause. The
seat gives them back as suspects. Each is then called alone: the one that dies alone is guilty, and only its attempt
fails. If it dies while nothing is being called, nobody is: a call to it is pending for as long as it lives, so that the
seat knows, and starts another one for the next delivery.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from shardclock import Failed, Outcome
from sql.deliveries.claim import ClaimedDelivery
from workers.handler import HandlerSpec
from workers.process import CallResult, HandlerProcess

CHUNK_S = 0.02  # a chunk is as large as is called in about this time
CHUNK_MAX = 500
GRACE_S = 1.0  # beyond the handler's own timeout, until its process is killed
START_S = 60.0  # for the import of the user's code


@dataclass(frozen=True, slots=True)
class Called:
    """What became of a chunk: an outcome for each delivery, or none if it must be called again, one at a time.

    Of the chunk, `uncalled` were not called: the handler has become slow.
    """

    chunk: Sequence[ClaimedDelivery]
    outcomes: Sequence[Outcome] | None
    each_s: float
    began_at: datetime
    uncalled: Sequence[ClaimedDelivery] = ()


class CannotStart(Exception):
    """The process of a handler does not come up; the message says why."""


class Seat:
    """Keep one process of a handler, and call it."""

    def __init__(self, spec: HandlerSpec, start: Callable[[HandlerSpec], HandlerProcess]) -> None:
        self.chunk = 1
        self._spec = spec
        self._start = start
        self._process: HandlerProcess | None = None
        self._started = False
        self._watch: asyncio.Task[None] | None = None
        self._calls = 0
        self._deliveries = 0
        self._alone = False

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
    def has_room(self) -> bool:
        """Say whether it takes another chunk: while one is settled, the next can already be called."""
        if self._alone or not self._started:
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
        """Call the handler for each delivery of a chunk that was taken.

        errors:  CannotStart  no delivery was called
        """
        try:
            process = await self._ready()
            return await self._call(process, chunk, began_at=now())
        finally:
            self._calls -= 1
            self._deliveries -= len(chunk)
            self._alone = False

    async def start(self) -> None:
        """Start its process, if there is none.

        errors:  CannotStart
        """
        await self._ready()

    def end(self) -> None:
        """End the process, whatever it does."""
        if self._process is not None:
            self._process.kill()
            self._process = None
            self._started = False
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None

    async def _call(self, process: HandlerProcess, chunk: Sequence[ClaimedDelivery], *, began_at: datetime) -> Called:
        began_s = time.monotonic()
        try:
            answer = await self._answer(process, chunk)
        except TimeoutError:
            why = Failed(f"it did not end within {self._spec.policy.timeout_s:g} s", "timeout")
            return self._lose(process, chunk, why, began_s, began_at)
        except Exception as error:  # noqa: BLE001 - whatever it is, its deliveries must not stay in hand for ever
            return self._lose(process, chunk, Failed(str(error) or type(error).__name__), began_s, began_at)
        count = len(answer.outcomes)
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

    async def _ready(self) -> HandlerProcess:
        if self._process is None:
            try:
                process = self._process = self._start(self._spec)
                async with asyncio.timeout(START_S):
                    await process.ready()
            except TimeoutError as error:
                self.end()
                raise CannotStart(f"it was not ready within {START_S:g} s") from error
            except Exception as error:
                self.end()
                raise CannotStart(str(error) or type(error).__name__) from error
            self._started = True
            self._watch = asyncio.create_task(self._watch_process(process))
        return self._process

    async def _watch_process(self, process: HandlerProcess) -> None:
        """Forget a process that ends while nothing is being called; else the calls tell what became of them."""
        try:
            await process.gone()
        except Exception:  # noqa: BLE001 - whatever it is, nobody would hear of the process's end any more
            if self._process is process and self.is_empty:
                self.end()


def next_chunk(size: int, took_s: float, deliveries: int) -> int:
    """Return the next chunk's size, after `deliveries` were called in `took_s`: at most twice the last one's."""
    each_s = took_s / max(1, deliveries)
    return max(1, min(CHUNK_MAX, size * 2, int(CHUNK_S / max(each_s, 1e-6))))
