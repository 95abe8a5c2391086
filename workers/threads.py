"""A call in a thread of its own."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from typing import TypeVar

T = TypeVar("T")


async def in_a_thread(call: Callable[[], T]) -> T:
    """Make a call, and return what it returns.

    It is not one of the loop's pool: a plain function that never ends would keep the pool's place, and the loop and the
    process from ending.
    """
    loop, context = asyncio.get_running_loop(), copy_context()
    ended: asyncio.Future[T] = loop.create_future()

    def tell(result: T | None, error: BaseException | None) -> None:
        if ended.done():
            return  # nobody waits for it any more
        if error is None:
            ended.set_result(result)  # type: ignore[arg-type]
        else:
            ended.set_exception(error)

    def make() -> None:
        result, failure = None, None
        try:
            result = context.run(call)
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is the caller's
            failure = error
        with suppress(RuntimeError):  # the loop has ended before it
            loop.call_soon_threadsafe(tell, result, failure)

    threading.Thread(target=make, name="call", daemon=True).start()
    return await ended
