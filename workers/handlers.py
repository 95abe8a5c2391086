"""Manage the queues of all handlers in one worker."""

import asyncio
from collections.abc import Callable, Collection, Sequence

from shardclock_server.sql.deliveries.claim import Claim, ClaimedDelivery
from shardclock_server.sql.deliveries.settle import Settlement
from shardclock_server.workers.context import WorkerContext
from shardclock_server.workers.handler import HandlerSpec
from shardclock_server.workers.handler_queue import HandlerQueue
from shardclock_server.workers.process import HandlerProcess
from shardclock_server.workers.task_set import TaskSet

# The largest number of handlers with grants, because grants make the shards' statements slower. The handlers with the
# most recent deliveries get grants.
GRANTED_MAX = 16


class Handlers:
    """Call the handlers of an app."""

    def __init__(
        self,
        specs: Sequence[HandlerSpec],
        context: WorkerContext,
        *,
        start: Callable[[HandlerSpec], HandlerProcess],
    ) -> None:
        self._queues = {spec.target: HandlerQueue(spec, context, start=start) for spec in specs}
        self._running = TaskSet(context.on_fault)
        self._latest: dict[str, None] = {}  # targets in the order of their latest deliveries, newest last

    def __contains__(self, target: str) -> bool:
        """Return whether a target is a handler of the app."""
        return target in self._queues

    def __len__(self) -> int:
        """Count the deliveries of all handlers."""
        return sum(map(len, self._queues.values()))

    @property
    def places(self) -> dict[str, int]:
        """Return how many deliveries of each handler the next claim may take."""
        return {target: queue.places for target, queue in self._queues.items()}

    @property
    def free(self) -> dict[str, int]:
        """Return how many more deliveries each handler's queue can hold."""
        return {target: queue.free for target, queue in self._queues.items()}

    @property
    def targets(self) -> Collection[str]:
        """Return the names of the handlers."""
        return self._queues.keys()

    def grantable(self, target: str) -> int:
        """Return how many deliveries of a handler shards may hand over."""
        return self._queues[target].grantable if target in self._latest else 0

    def note_granted(self, target: str, places: int) -> None:
        """Record the capacity of a handler that is granted to shards, so that claims don't use it."""
        if target in self._queues:
            self._queues[target].granted = places

    def waits_for_process(self, target: str) -> bool:
        """Return whether a target is a handler without a running process; it then accepts no deliveries."""
        queue = self._queues.get(target)
        return queue is not None and not queue.is_up

    def begin(self) -> None:
        """Start the loops that call deliveries."""
        for queue in self._queues.values():
            self._running.begin(queue.run())

    def add(self, target: str, deliveries: Sequence[ClaimedDelivery]) -> None:
        """Add claimed deliveries of one handler."""
        self._latest.pop(target, None)
        self._latest[target] = None
        if len(self._latest) > GRANTED_MAX:
            del self._latest[next(iter(self._latest))]
        self._queues[target].add(deliveries)

    def drop(self, lost: Collection[Claim]) -> None:
        """Drop waiting deliveries that another worker has claimed."""
        for queue in self._queues.values():
            queue.drop(lost)

    def stop(self) -> set[asyncio.Task[None]]:
        """Start no more calls; return the tasks of the running calls."""
        return {call for queue in self._queues.values() for call in queue.stop()}

    def give_back(self) -> list[Settlement]:
        """Release all waiting deliveries without counting an attempt."""
        return [settlement for queue in self._queues.values() for settlement in queue.give_back()]

    async def close(self) -> None:
        """Cancel all calls, and kill the processes."""
        await self._running.break_off()
