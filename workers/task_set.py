"""Hold references to the tasks of running calls, which no other task awaits."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

OnFault = Callable[[BaseException], None]


class TaskSet:
    """The asyncio tasks of the calls that have not ended.

    A task records the failure of a target as an outcome, without an exception. So an exception in a task is a bug of
    the worker. `on_fault` then stops the worker: if the worker continued, it would renew the leases of the task's
    deliveries for ever.
    """

    def __init__(self, on_fault: OnFault) -> None:
        self._on_fault = on_fault
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """Count the tasks."""
        return len(self._tasks)

    def __iter__(self) -> Iterator[asyncio.Task[None]]:
        """List the tasks."""
        return iter(self._tasks)

    def begin(self, call: Coroutine[Any, Any, None]) -> None:
        """Start a call in a new task."""
        task = asyncio.create_task(call)
        self._tasks.add(task)
        task.add_done_callback(self._end)

    async def break_off(self) -> None:
        """Cancel all tasks, and wait until they have ended."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_fault(error)
