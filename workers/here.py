"""Handlers and runs in the worker's own process: where a test captures, patches and steps through them.

Nothing ends a function from outside here. One that never ends is left behind, as the seat or the run's policy says.
"""

import asyncio
from collections.abc import Mapping, Sequence

from shardclock import CallOutcome, Handler, Job, RunOrder, Seen
from shardclock.executor.handlers import HandlerCalls
from shardclock.executor.runs import Runs
from shardclock_server.sql.deliveries.claim import ClaimedDelivery
from shardclock_server.workers.handler import HandlerSpec
from shardclock_server.workers.needs import Needs
from shardclock_server.workers.process import CallResult, envelope_of


class HandlerHere:
    """Call a handler: an async function in this event loop, a plain one in a thread, as its actor does."""

    def __init__(self, spec: HandlerSpec, *, handlers: Mapping[str, Handler]) -> None:
        self._calls = HandlerCalls(handlers[spec.target], spec.calls_max)

    async def ready(self) -> None:
        """Answer: the user's code is imported."""

    async def gone(self) -> None:
        """Never answer: its process is the worker's own."""
        await asyncio.Event().wait()

    async def call(self, deliveries: Sequence[ClaimedDelivery]) -> CallResult:
        """Call the handler for each delivery."""
        return CallResult.of(*await self._calls.call(map(envelope_of, deliveries)))

    def kill(self) -> None:
        """Leave it."""


class RunHere:
    """Make runs of jobs, each in a thread, as their actor does."""

    def __init__(self, _: Needs, *, jobs: Mapping[str, Job]) -> None:
        self._runs = Runs(jobs.values())
        self._ready = asyncio.get_running_loop().create_future()
        self._ready.set_result(None)

    def ready(self) -> asyncio.Future[None]:
        """Answer at once, without a task: the user's code is imported."""
        return self._ready

    async def run(self, order: RunOrder, *, lives_s: float) -> tuple[CallOutcome, Seen]:  # noqa: ARG002 - it is here
        """Make a run; return how it ended, and what it said last."""
        return await self._runs.run(order)

    async def look(self, *, lives_s: float) -> Seen:  # noqa: ARG002 - as above
        """Say what the run has said so far."""
        return self._runs.look()

    async def cancel(self) -> None:
        """Tell the run to end."""
        self._runs.cancel()

    def kill(self) -> None:
        """Tell the run to end; if it doesn't heed that, it is left."""
        self._runs.cancel()
