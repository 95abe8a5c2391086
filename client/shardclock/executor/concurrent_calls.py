"""Call an async handler for the timers of one message, many calls at a time."""

import asyncio
import time
from collections.abc import Sequence
from contextvars import Context, copy_context

from shardclock import Handler, Outcome, Timer, call_async
from shardclock.deadline import Deadline


class ConcurrentCalls:
    """The calls for the timers of one message; `room` limits the concurrent calls of all messages.

    No call starts later than `begins_s` after the message, because a slow handler would delay hundreds of timers.

    A task costs more than most calls. Each task therefore makes many calls, one after another; further tasks start only
    when a call of the first task waits. If a call changes its task's context variables, the task ends, because each
    call must start with the variables of the message.
    """

    def __init__(
        self, handler: Handler, timers: Sequence[Timer[str | None]], *, room: asyncio.Semaphore, begins_s: float
    ) -> None:
        self._handler = handler
        self._timers = timers
        self._room = room
        self._begins_s = begins_s
        self._context = copy_context()
        self._outcomes: dict[int, Outcome] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._begun = 0
        self._ends_s = 0.0
        self._is_late = False

    async def outcomes(self, calls_max: int) -> list[Outcome]:
        """Call the handler for each timer, at most `calls_max` at a time.

        shape:   the outcomes of the first timers, in order; the other timers were not called, because the time was over
        """
        self._begin_task()
        await asyncio.sleep(0)  # Let the first task make calls until one of its calls waits.
        for _ in range(min(self._left, calls_max - 1)):
            self._begin_task()
        for task in self._tasks:  # The list grows during this loop.
            await task
        return [self._outcomes[number] for number in range(self._begun)]

    @property
    def _left(self) -> int:
        return 0 if self._is_late else len(self._timers) - self._begun

    def _begin_task(self) -> None:
        context = self._context.run(copy_context)
        self._tasks.append(asyncio.create_task(self._call_some(context), context=context))

    async def _call_some(self, context: Context) -> None:
        async with self._room:
            deadline = Deadline(self._handler.policy.timeout_s)
            while self._begin_call():
                number = self._begun - 1
                self._outcomes[number] = await call_async(self._handler, self._timers[number], deadline)
                if context != self._context or deadline.task.cancelling():
                    break
        if self._left:
            self._begin_task()

    def _begin_call(self) -> bool:
        """Reserve the next timer for a call; return False if no timer is left or the time is over."""
        now_s = time.perf_counter()
        if not self._begun:
            self._ends_s = now_s + self._begins_s
        self._is_late = now_s > self._ends_s
        if not self._left:
            return False
        self._begun += 1
        return True
