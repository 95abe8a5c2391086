"""Call plain functions, each in a separate thread during the call."""

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from typing import Any, Generic, TypeVar

T = TypeVar("T")
IDLE_MAX = 8  # the largest number of idle threads: a new thread takes longer than most calls


async def in_a_thread(call: Callable[[], T]) -> T:
    """Call a function in a thread, and return its result.

    The thread is not from the event loop's pool. The loop and the process can't end while a thread of this pool runs,
    and a function may never return.
    """
    made = _Call(call)
    _make(made)
    return await asyncio.wrap_future(made.ended)


class _Call(Generic[T]):
    """One call, and its result or exception."""

    def __init__(self, call: Callable[[], T]) -> None:
        self.ended = Future[T]()
        self.ended.set_running_or_notify_cancel()  # the future can't be cancelled: the thread always sets its result
        self.has_begun = False
        self._call = call
        self._context = copy_context()

    def make(self) -> Callable[[], None]:
        """Call the function, and return a function that sets the result of the call."""
        self.has_begun = True
        try:
            result = self._context.run(self._call)
        except BaseException as error:  # noqa: BLE001 - any exception belongs to the caller
            failure = error
            return lambda: self.ended.set_exception(failure)
        return lambda: self.ended.set_result(result)


def _make(call: _Call[Any]) -> None:
    with _counting:
        thread = _idle.pop() if _idle else _CallThread()
        thread.take(call)


class _CallThread:
    """A thread that makes calls, one at a time, and is idle in between."""

    def __init__(self) -> None:
        self._calls = deque[_Call[Any]]()  # the call in progress, and the next call
        self._process = os.getpid()
        self._is_called = threading.Lock()  # locked, except while a call waits for the thread
        self._is_called.acquire()
        threading.Thread(target=self._work, name="call", daemon=True).start()

    def take(self, call: _Call[Any]) -> None:
        """Give the idle thread its next call; callers must not call `take` concurrently."""
        self._calls.append(call)
        self._is_called.release()

    def _work(self) -> None:
        try:
            while self._is_idle_again():
                pass
        finally:
            if os.getpid() == self._process:
                self._leave()

    def _is_idle_again(self) -> bool:
        """Make the next call; return whether the thread waits for another call."""
        self._is_called.acquire()
        tell = self._calls[0].make()
        if os.getpid() != self._process:
            return False  # the call has forked, and this is the child process: it has only this thread, so it exits
        with _counting:
            is_idle = len(_idle) < IDLE_MAX
            if is_idle:
                _idle.append(self)
        tell()
        self._calls.popleft()  # remove the call from the queue, so that its result is freed
        return is_idle

    def _leave(self) -> None:
        """End the thread without losing a call.

        Other code may raise an exception in a thread during a call. If the exception arrives after the end of the call,
        it ends the thread.
        """
        with _counting:
            if self in _idle:
                _idle.remove(self)
        for call in self._calls:
            if not call.has_begun:
                _make(call)
            elif not call.ended.done():
                call.ended.set_exception(RuntimeError("the thread of the call was ended by a late exception"))


def _forget_threads() -> None:
    """Drop the list of idle threads, because a forked child has none of its parent's threads."""
    global _counting, _idle
    _counting, _idle = threading.Lock(), deque()


_counting: threading.Lock
_idle: deque[_CallThread]
_forget_threads()
os.register_at_fork(after_in_child=_forget_threads)
