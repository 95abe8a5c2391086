"""A call in a thread of its own."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from typing import TypeVar

T = TypeVar("T")


async def in_a_thread(call: Callable[[], T]) -> T:
    """Make a call, and return what it returns.

    Its thread is not one of the loop's pool. There a plain function that never ends would keep the pool's place, and
    neither the loop nor the process could end.
    """
    context, ended = copy_context(), Future[T]()
    ended.set_running_or_notify_cancel()  # nobody can take it back: the thread always tells how it ended

    def make() -> None:
        try:
            ended.set_result(context.run(call))
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is the caller's
            ended.set_exception(error)

    threading.Thread(target=make, name="call", daemon=True).start()
    return await asyncio.wrap_future(ended)
