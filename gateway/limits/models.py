"""Read models beside the requests: in a thread, one at a time, because one may take seconds.

On the loop it would keep all others waiting, and in a transaction its locks would be held meanwhile.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from gateway.limits.places import Places

READ_MAX = 8  # one that is read, and those that wait for it: each may have 4 MiB

T = TypeVar("T")


class ModelReader:
    """The thread of one gateway that reads models, and the places of those that wait for it."""

    def __init__(self) -> None:
        self._places = Places(READ_MAX, doing="have models read here", way_out="ask again soon, or ask another gateway")
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="models")

    async def aclose(self) -> None:
        """Read no more; what is being read is read to its end."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def read(self, reading: Callable[..., T], *given: object) -> T:
        """Call a function that reads a model, once those that came before have been read.

        errors:  Problem  too many wait already; and whatever the function raises
        """
        with self._places.one():
            return await asyncio.get_running_loop().run_in_executor(self._thread, reading, *given)
