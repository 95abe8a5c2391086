"""Call a function (one iteration of a loop) repeatedly: until a stop, or while a block runs."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any

import structlog
from structlog.typing import FilteringBoundLogger

from shardclock.backoff import Backoff
from shardclock.reason import reason_of
from shardclock_server.keepers.heartbeat import HolderEnded
from shardclock_server.metrics.report import REPORT_S

# After a stop request, a running iteration may take this long; then it is cancelled.
DRAIN_S = 0.7
UPKEEP = Backoff(0.5, 5.0)  # the pause after a failed iteration of `upkeep`


class Loops:
    """Run the loops of one keeper concurrently; each loop calls its own `turn` function.

    `failed` is called with a loop's name when an iteration of the loop fails.

    When a loop succeeds again after a failure, the waits of the other failed loops end, because Postgres probably
    answers again.

    units:   after a failed iteration a loop waits about `retry_s`; each further failure doubles the wait, up to
             `retry_max_s`
    """

    def __init__(
        self, *, retry_s: float, retry_max_s: float, failed: Callable[[str], None], log: FilteringBoundLogger
    ) -> None:
        self.stopping = asyncio.Event()
        self._retry = asyncio.Event()  # ends the waits of the failed loops
        self._fault: BaseException | None = None
        self._backoff = Backoff(retry_s, retry_max_s)
        self._failed = failed
        self._log = log

    async def run(self, loops: Mapping[str, Coroutine[Any, Any, None]], *, stop: Callable[[], None]) -> None:
        """Run loops until a stop is requested or a loop has failed; `stop` asks all loops to end.

        errors:  the error that ended a loop, for example HolderEnded
        """
        tasks = [asyncio.create_task(work, name=name) for name, work in loops.items()]
        for task in tasks:
            task.add_done_callback(self._end_others)
        try:
            await self.stopping.wait()
        finally:
            self._retry.set()
            stop()
            _, stuck = await asyncio.wait(tasks, timeout=DRAIN_S)
            for task in stuck:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        self.check()

    def end_with(self, error: BaseException) -> None:
        """Stop all loops, and let `run` raise `error`.

        The error may come from a loop or from another task of the keeper.
        """
        self._fault = self._fault or error
        self.stopping.set()

    def _end_others(self, task: asyncio.Task[None]) -> None:
        """Stop all loops, because one loop has ended; an error of this loop is raised by `run`."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self.end_with(error)
        self.stopping.set()

    def check(self) -> None:
        """Raise the error that ends the loops, if there is one."""
        if self._fault is not None:
            raise self._fault

    async def until_stopped(self, name: str, turn: Callable[[], Awaitable[float]], sooner: asyncio.Event) -> None:
        """Call `turn` repeatedly until a stop; log a failed call, and wait longer after each further failure.

        units:   `turn` returns the seconds to wait before the next call; `sooner` ends this wait, except after a
                 failure
        errors:  HolderEnded  the keeper must stop
        """
        careful = _Careful(name, self._backoff, self._log)
        while not self.stopping.is_set():
            had_failed = careful.failures > 0
            pause_s = await careful.take(turn)
            if careful.failures:
                self._failed(name)
            elif had_failed:
                self._end_retry_waits()
            # After a failure `sooner` has no effect: most requests for an early iteration come when Postgres is
            # busiest.
            await pause(pause_s, self._retry if careful.failures else sooner)

    def _end_retry_waits(self) -> None:
        """Let the other failed loops try again immediately.

        The event is replaced by a new event, because later waits must not end immediately.
        """
        self._retry.set()
        if not self.stopping.is_set():
            self._retry = asyncio.Event()

    async def report(self, send: Callable[[], None]) -> None:
        """Call `send` every second until a stop."""
        while not self.stopping.is_set():
            send()
            await pause(REPORT_S, self.stopping)


class _Careful:
    """Run the iterations of one loop; log the first of consecutive failures, and wait longer after each failure."""

    def __init__(self, name: str, backoff: Backoff, log: FilteringBoundLogger) -> None:
        self.failures = 0  # the number of consecutive failed iterations
        self._name = name
        self._backoff = backoff
        self._log = log

    async def take(self, turn: Callable[[], Awaitable[float]]) -> float:
        """Run an iteration; return the seconds to wait before the next iteration.

        errors:  HolderEnded  no further iteration may follow
        """
        try:
            pause_s = await turn()
        except HolderEnded:
            raise
        except Exception as error:  # noqa: BLE001 - the top of a loop
            self.failures += 1
            if self.failures == 1:
                self._log.warning("turn failed", loop=self._name, error=reason_of(error))
            return self._backoff.scattered_s(self.failures)
        if self.failures:
            self._log.info("going again", loop=self._name, after_failures=self.failures)
        self.failures = 0
        return pause_s


@asynccontextmanager
async def upkeep(name: str, turn: Callable[[], Awaitable[float]]) -> AsyncIterator[None]:
    """Call `turn` repeatedly while a block runs; log a failed call, and repeat it after a pause.

    units:   a turn returns the seconds to wait before the next
    """
    careful = _Careful(name, UPKEEP, structlog.get_logger())

    async def keep_on() -> None:
        while True:
            pause_s = await careful.take(turn)
            await asyncio.sleep(pause_s)

    task = asyncio.create_task(keep_on(), name=name)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def pause(pause_s: float, sooner: asyncio.Event) -> None:
    """Wait until the timeout is over or the event is set."""
    if pause_s <= 0:
        await asyncio.sleep(0)
        return
    try:
        async with asyncio.timeout(pause_s):
            await sooner.wait()
    except TimeoutError:
        return
