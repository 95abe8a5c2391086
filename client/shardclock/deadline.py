"""End async calls that take longer than their timeout, with one alarm for all calls of one timeout.

A timer of the loop for each call would cost more than most calls. Calls of one timeout run out in the order in which
they began, so a look at the oldest is enough, and it is taken when the oldest would run out.
"""

import asyncio
from types import TracebackType
from weakref import WeakKeyDictionary

from shardclock.outcome import TookTooLong


class Deadline:
    """Cancel the task when the time is over, and raise `TookTooLong` then; as `asyncio.timeout`, but cheaper.

    A block that swallows the cancellation and returns was interrupted all the same, so that raises `TookTooLong`, too.

    errors:  TookTooLong     the time was over before the block ended
             CancelledError  somebody else cancelled the task
    """

    __slots__ = ("_cancelling", "_passed", "_queue", "at_s", "task")

    def __init__(self, timeout_s: float) -> None:
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task is not None, "a coroutine of asyncio runs in a task"
        self.at_s = loop.time() + timeout_s
        self.task = task
        self._cancelling = task.cancelling()
        self._passed = False
        self._queue = _queue_of(loop, timeout_s)

    def __enter__(self) -> None:
        self._queue.add(self)

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        if not self._passed:
            self._queue.remove(self)
            return
        if self.task.uncancel() > self._cancelling and isinstance(error, asyncio.CancelledError):
            return
        raise TookTooLong(f"it took longer than its timeout, {self._queue.timeout_s:g} s") from error

    def pass_(self) -> None:
        """Cancel the task: the time is over."""
        self._passed = True
        self.task.cancel()


class _Queue:
    """Hold the deadlines of one timeout on one loop, the soonest first."""

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._deadlines: dict[Deadline, None] = {}
        self._is_armed = False

    def add(self, deadline: Deadline) -> None:
        self._deadlines[deadline] = None
        if not self._is_armed:
            self._is_armed = True
            asyncio.get_running_loop().call_at(deadline.at_s, self._look)

    def remove(self, deadline: Deadline) -> None:
        self._deadlines.pop(deadline, None)

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        while self._deadlines:
            soonest = next(iter(self._deadlines))
            if soonest.at_s > now_s:
                loop.call_at(soonest.at_s, self._look)
                return
            del self._deadlines[soonest]
            soonest.pass_()
        self._is_armed = False


# A queue holds no loop, so a loop that is gone takes its queues along. There are as many as handlers have timeouts.
_queues: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[float, _Queue]] = WeakKeyDictionary()


def _queue_of(loop: asyncio.AbstractEventLoop, timeout_s: float) -> _Queue:
    of_loop = _queues.get(loop)
    if of_loop is None:
        of_loop = _queues[loop] = {}
    queue = of_loop.get(timeout_s)
    if queue is None:
        queue = of_loop[timeout_s] = _Queue(timeout_s)
    return queue
