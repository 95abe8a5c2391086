"""End async calls that exceed their timeout, with one alarm for all calls with the same timeout.

A separate timer in the event loop for each call would take more processor time than most calls. Calls with
the same timeout expire in the order of their starts, so one alarm for the oldest call is enough.
"""

import asyncio
from types import TracebackType
from weakref import WeakKeyDictionary

from shardclock.outcome import TookTooLong


class Deadline:
    """Cancel the current task after a timeout, and then raise `TookTooLong`; like `asyncio.timeout`, but cheaper.

    A task may use its deadline for several blocks, one after another; each block gets the whole timeout. If the block
    catches the cancellation and returns, this class nevertheless raises `TookTooLong`.

    errors:  TookTooLong     the timeout passed before the block ended.
             CancelledError  other code cancelled the task.
    """

    __slots__ = ("_cancelling", "_expired", "_loop", "_queue", "at_s", "task")

    def __init__(self, timeout_s: float) -> None:
        # `get_running_loop` makes a system call in Python 3.11, so each task calls it only once.
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task is not None, "a coroutine of asyncio runs in a task"
        self.at_s = 0.0
        self.task = task
        self._loop = loop
        self._cancelling = 0
        self._expired = False
        self._queue = _queue_of(loop, timeout_s)

    def __enter__(self) -> None:
        self.at_s = self._loop.time() + self._queue.timeout_s
        self._cancelling = self.task.cancelling()
        self._expired = False
        self._queue.add(self, self._loop)

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        if not self._expired:
            self._queue.remove(self)
            return
        if self.task.uncancel() > self._cancelling and isinstance(error, asyncio.CancelledError):
            return
        raise TookTooLong(f"the call took longer than its timeout, {self._queue.timeout_s:g} s") from error

    def expire(self) -> None:
        """Cancel the task after the timeout."""
        self._expired = True
        self.task.cancel()


class _DeadlineQueue:
    """The deadlines of one timeout on one event loop, the soonest first."""

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._deadlines: dict[Deadline, None] = {}
        self._is_armed = False

    def add(self, deadline: Deadline, loop: asyncio.AbstractEventLoop) -> None:
        self._deadlines[deadline] = None
        if not self._is_armed:
            self._is_armed = True
            loop.call_at(deadline.at_s, self._expire_due)

    def remove(self, deadline: Deadline) -> None:
        self._deadlines.pop(deadline, None)

    def _expire_due(self) -> None:
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        while self._deadlines:
            soonest = next(iter(self._deadlines))
            if soonest.at_s > now_s:
                loop.call_at(soonest.at_s, self._expire_due)
                return
            del self._deadlines[soonest]
            soonest.expire()
        self._is_armed = False


# A queue has no reference to its loop, so a closed loop frees its queues. Each timeout has one queue.
_queues: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[float, _DeadlineQueue]] = WeakKeyDictionary()


def _queue_of(loop: asyncio.AbstractEventLoop, timeout_s: float) -> _DeadlineQueue:
    of_loop = _queues.get(loop)
    if of_loop is None:
        of_loop = _queues[loop] = {}
    queue = of_loop.get(timeout_s)
    if queue is None:
        queue = of_loop[timeout_s] = _DeadlineQueue(timeout_s)
    return queue
