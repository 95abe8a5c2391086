"""Calls of plain functions, each in a thread of its own for as long as it takes."""

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from typing import Any, Generic, TypeVar

T = TypeVar("T")
IDLE_MAX = 8  # threads that wait for their next call; to start one takes longer than most functions


async def in_a_thread(call: Callable[[], T]) -> T:
    """Make a call, and return its result.

    Its thread is not one of the loop's pool. There a plain function that never ends would keep the pool's place, and
    neither the loop nor the process could end.
    """
    made = _Call(call)
    _make(made)
    return await asyncio.wrap_future(made.ended)


class _Call(Generic[T]):
    """One call, and how it ended."""

    def __init__(self, call: Callable[[], T]) -> None:
        self.ended = Future[T]()
        self.ended.set_running_or_notify_cancel()  # it can't be cancelled: the thread always sets its end
        self.has_begun = False
        self._call = call
        self._context = copy_context()

    def make(self) -> Callable[[], None]:
        """Make the call, and return the function that sets its end."""
        self.has_begun = True
        try:
            result = self._context.run(self._call)
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is the caller's
            failure = error
            return lambda: self.ended.set_exception(failure)
        return lambda: self.ended.set_result(result)


def _make(call: _Call[Any]) -> None:
    with _counting:
        thread = _idle.pop() if _idle else _CallThread()
        thread.take(call)


class _CallThread:
    """Make one call after the other, and be idle in between."""

    def __init__(self) -> None:
        self._calls = deque[_Call[Any]]()  # the one that is being made, and the next
        self._process = os.getpid()
        self._is_called = threading.Lock()  # free while there is a next one
        self._is_called.acquire()
        threading.Thread(target=self._work, name="call", daemon=True).start()

    def take(self, call: _Call[Any]) -> None:
        """Take a call; of two threads one alone may give it, and only while this one is idle."""
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
        """Make the next call, and say whether to wait for another one. It may come as soon as the end is set."""
        self._is_called.acquire()
        tell = self._calls[0].make()
        if os.getpid() != self._process:
            return False  # the call has forked: this is the only thread of its child, which ends with it
        with _counting:
            is_idle = len(_idle) < IDLE_MAX
            if is_idle:
                _idle.append(self)
        tell()
        self._calls.popleft()  # it holds the call's result
        return is_idle

    def _leave(self) -> None:
        """End, and leave no call behind.

        A function may send an exception to its thread. If that comes when the call has ended, it ends the thread.
        """
        with _counting:
            if self in _idle:
                _idle.remove(self)
        for call in self._calls:
            if not call.has_begun:
                _make(call)
            elif not call.ended.done():
                call.ended.set_exception(RuntimeError("its thread was ended by an exception that came too late"))


def _forget_threads() -> None:
    """Begin without any: a child that was forked has none of its parent's threads."""
    global _counting, _idle
    _counting, _idle = threading.Lock(), deque()


_counting: threading.Lock
_idle: deque[_CallThread]
_forget_threads()
os.register_at_fork(after_in_child=_forget_threads)
