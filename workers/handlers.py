"""The deliveries of handlers in one worker: one queue for each handler."""

import asyncio
from collections.abc import Callable, Collection, Sequence

from shardclock_server.sql.deliveries.claim import Claim, ClaimedDelivery
from shardclock_server.sql.deliveries.settle import Settlement
from shardclock_server.workers.calls import Calls
from shardclock_server.workers.context import WorkerContext
from shardclock_server.workers.handler import HandlerSpec
from shardclock_server.workers.handler_queue import HandlerQueue
from shardclock_server.workers.process import HandlerProcess


class Handlers:
    """Call the handlers of an app; `Endpoints` is the same for webhooks."""

    def __init__(
        self,
        specs: Sequence[HandlerSpec],
        context: WorkerContext,
        *,
        start: Callable[[HandlerSpec], HandlerProcess],
    ) -> None:
        self._queues = {spec.target: HandlerQueue(spec, context, start=start) for spec in specs}
        self._running = Calls(context.broken)

    def __contains__(self, target: str) -> bool:
        """Say whether a target is one of the handlers."""
        return target in self._queues

    def __len__(self) -> int:
        """Count the deliveries in hand."""
        return sum(map(len, self._queues.values()))

    @property
    def places(self) -> dict[str, int]:
        """Return how many more deliveries of each handler are to be claimed."""
        return {target: queue.places for target, queue in self._queues.items()}

    @property
    def free(self) -> dict[str, int]:
        """Return how many more deliveries each handler may have."""
        return {target: queue.free for target, queue in self._queues.items()}

    def waits_for_process(self, target: str) -> bool:
        """Say whether a target is a handler without a process, which takes nothing for that reason alone."""
        queue = self._queues.get(target)
        return queue is not None and not queue.is_up

    def begin(self) -> None:
        """Begin to call what waits."""
        for queue in self._queues.values():
            self._running.begin(queue.run())

    def add(self, target: str, deliveries: Sequence[ClaimedDelivery]) -> None:
        """Take deliveries of one handler that were claimed."""
        self._queues[target].add(deliveries)

    def drop(self, lost: Collection[Claim]) -> None:
        """Forget what waits and is another worker's now."""
        for queue in self._queues.values():
            queue.drop(lost)

    def stop(self) -> set[asyncio.Task[None]]:
        """Begin no more calls; return those that are under way."""
        return {call for queue in self._queues.values() for call in queue.stop()}

    def give_back(self) -> list[Settlement]:
        """Give up what waits: attempts that did not take place."""
        return [settlement for queue in self._queues.values() for settlement in queue.give_back()]

    async def close(self) -> None:
        """Break off what is being called, and end the processes."""
        await self._running.break_off()
