"""The deliveries of handlers in one worker: one line for each handler."""

import asyncio
from collections.abc import Callable, Collection, Sequence

from sql.deliveries.claim import Claim, ClaimedDelivery
from sql.deliveries.settle import Settlement
from workers.calls import Calls
from workers.context import WorkerContext
from workers.handler import HandlerSpec
from workers.line import Line
from workers.process import HandlerProcess


class Handlers:
    """Call the handlers of an app; `Endpoints` is the same for webhooks."""

    def __init__(
        self,
        specs: Sequence[HandlerSpec],
        context: WorkerContext,
        *,
        start: Callable[[HandlerSpec], HandlerProcess],
    ) -> None:
        self._lines = {spec.target: Line(spec, context, start=start) for spec in specs}
        self._running = Calls(context.broken)

    def __contains__(self, target: str) -> bool:
        """Say whether a target is one of the handlers."""
        return target in self._lines

    def __len__(self) -> int:
        """Count the deliveries in hand."""
        return sum(map(len, self._lines.values()))

    @property
    def places(self) -> dict[str, int]:
        """Return how many more deliveries each handler takes, as a scan asks for it."""
        return {target: line.places for target, line in self._lines.items()}

    def waits_for_process(self, target: str) -> bool:
        """Say whether a target is a handler without a process, which takes nothing for that reason alone."""
        line = self._lines.get(target)
        return line is not None and not line.is_up

    def begin(self) -> None:
        """Begin to call what waits."""
        for line in self._lines.values():
            self._running.begin(line.run())

    def add(self, target: str, deliveries: Sequence[ClaimedDelivery]) -> None:
        """Take deliveries of one handler that were claimed."""
        self._lines[target].add(deliveries)

    def drop(self, lost: Collection[Claim]) -> None:
        """Forget what waits and is another worker's now."""
        for line in self._lines.values():
            line.drop(lost)

    def stop(self) -> set[asyncio.Task[None]]:
        """Begin no more calls; return those that are under way."""
        return {call for line in self._lines.values() for call in line.stop()}

    def give_back(self) -> list[Settlement]:
        """Give up what waits: attempts that did not take place."""
        return [settlement for line in self._lines.values() for settlement in line.give_back()]

    async def close(self) -> None:
        """Break off what is being called, and end the processes."""
        await self._running.break_off()
