"""Call one handler of an app in this process."""

import asyncio
import gc
import pickle
import time
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from shardclock import COMPLETED, Handler, Outcome, Timer, call_batch_async, call_batch_plain, call_plain, find_handlers
from shardclock.executor.concurrent_calls import ConcurrentCalls
from shardclock.executor.importing import prepare_to_import
from shardclock.executor.threads import in_a_thread
from shardclock.timer import timer_of

# The values of each delivery that a worker sends to the process, in the order of Timer's fields.
Envelope = tuple[Any, ...]
# After this time, the process gives the remaining timers back to the worker, because a slow handler would delay
# hundreds of timers.
BEGINS_S = 0.5


class HandlerCalls:
    """Call one handler in this process."""

    def __init__(self, handler: Handler, calls_max: int) -> None:
        self._handler = handler
        self._calls_max = calls_max
        # This semaphore limits the concurrent calls. A plain function has one call at a time.
        self._room = asyncio.Semaphore(calls_max if handler.is_async else 1)

    async def call(self, envelopes: Iterable[Envelope]) -> tuple[list[Outcome | None], float]:
        """Call the handler for each timer.

        A plain function handles one timer after another, an async function all timers concurrently.

        shape:   a list of outcomes (None: success without a result), and the handler's run time in seconds. The list is
                 shorter than the list of timers if the handler was not called for all timers in time
        """
        handler, timers = self._handler, [timer_of(envelope) for envelope in envelopes]
        if handler.is_async and not handler.takes_batch:
            began_s = time.perf_counter()
            outcomes = await self._call_each(timers)
        else:
            async with self._room:
                began_s = time.perf_counter()
                if handler.is_async:
                    outcomes = await call_batch_async(handler, timers)
                else:
                    # A plain function is called in a thread, because it may run its own event loop.
                    outcomes = await in_a_thread(partial(_call_plain, handler, timers))
        took_s = time.perf_counter() - began_s
        return [None if outcome is COMPLETED else outcome for outcome in outcomes], took_s

    async def _call_each(self, timers: Sequence[Timer[str | None]]) -> list[Outcome]:
        calls = ConcurrentCalls(self._handler, timers, room=self._room, begins_s=BEGINS_S)
        return await calls.outcomes(self._calls_max)


class HandlerExecutor:
    """Import an app and call one of its handlers."""

    def __init__(self, modules: str, directory: str, target: str, calls_max: int, priority: int) -> None:
        prepare_to_import(directory, priority=priority)
        self._calls = HandlerCalls(find_handlers(modules.split(","))[target], calls_max)
        # Exclude the imported objects from garbage collection: a scan of these objects stops all calls for 0.1 s.
        gc.collect()
        gc.freeze()

    async def answer(self, call: bytes) -> bytes:
        """Call the handler for each timer, as `HandlerCalls` does."""
        envelopes = pickle.loads(call)  # noqa: S301 - from our own worker
        return pickle.dumps(await self._calls.call(envelopes), pickle.HIGHEST_PROTOCOL)


def _call_plain(handler: Handler, timers: Sequence[Timer[str | None]]) -> list[Outcome]:
    if handler.takes_batch:
        return call_batch_plain(handler, timers)
    ends_s = time.perf_counter() + BEGINS_S
    outcomes: list[Outcome] = []
    for timer in timers:
        outcomes.append(call_plain(handler, timer))
        if time.perf_counter() > ends_s:
            break
    return outcomes
