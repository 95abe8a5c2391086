"""Calls of plain functions, each in a thread that nothing else uses meanwhile."""

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from queue import SimpleQueue
from typing import TypeVar

T = TypeVar("T")
IDLE_MAX = 8  # threads that wait for their next call; to start one takes longer than most functions


async def in_a_thread(call: Callable[[], T]) -> T:
    """Make a call, and return what it returns.

    Its thread is not one of the loop's pool. There a plain function that never ends would keep the pool's place, and
    neither the loop nor the process could end.
    """
    context, ended = copy_context(), Future[T]()
    ended.set_running_or_notify_cancel()  # nobody can take it back: the thread always tells how it ended
    try:
        thread = _idle.pop()
    except IndexError:
        thread = _CallThread()

    def make() -> Callable[[], None]:
        try:
            result = context.run(call)
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is the caller's
            failure = error
            return lambda: ended.set_exception(failure)
        return lambda: ended.set_result(result)

    thread.make(make)
    return await asyncio.wrap_future(ended)


class _CallThread:
    """Make one call after the other, and be idle in between."""

    def __init__(self) -> None:
        self._calls = SimpleQueue[Callable[[], Callable[[], None]]]()
        threading.Thread(target=self._work, name="call", daemon=True).start()

    def make(self, call: Callable[[], Callable[[], None]]) -> None:
        """Make a call, which returns what tells its end: by then the thread is free for the next."""
        self._calls.put(call)

    def _work(self) -> None:
        process, is_idle = os.getpid(), True
        while is_idle:
            tell = self._calls.get()()
            if os.getpid() != process:
                return  # the call has forked: this is the only thread of its child, which ends with it
            with _counting:
                is_idle = len(_idle) < IDLE_MAX
                if is_idle:
                    _idle.append(self)
            tell()
            del tell  # it holds what the call returned


def _forget_threads() -> None:
    """Begin without any: a child that was forked has none of its parent's threads."""
    global _counting, _idle
    _counting, _idle = threading.Lock(), deque()


_counting: threading.Lock
_idle: deque[_CallThread]
_forget_threads()
os.register_at_fork(after_in_child=_forget_threads)
