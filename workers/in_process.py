"""Call handlers and execute runs in the worker's own process.

A test can then patch and debug the user's code, and capture its output.

A function in this process can't be killed. After a timeout, the worker ignores the call, and the function continues.
"""

import asyncio
from collections.abc import Mapping, Sequence

from shardclock import CallOutcome, Handler, Job, ReportSnapshot, RunOrder
from shardclock.executor.handlers import HandlerCalls
from shardclock.executor.runs import Runs
from shardclock_server.sql.deliveries.claim import ClaimedDelivery
from shardclock_server.workers.handler import HandlerSpec
from shardclock_server.workers.process import CallResult, envelope_of
from shardclock_server.workers.run_resources import RunResources


class InProcessHandler:
    """Call an async function in the event loop and a plain function in a thread, as a handler's process does."""

    def __init__(self, spec: HandlerSpec, *, handlers: Mapping[str, Handler]) -> None:
        self._calls = HandlerCalls(handlers[spec.target], spec.calls_max)

    async def ready(self) -> None:
        """Return immediately, because this process has already imported the user's code."""

    async def gone(self) -> None:
        """Wait until this call is canceled, because the worker's own process can't end before the call."""
        await asyncio.Event().wait()

    async def call(self, deliveries: Sequence[ClaimedDelivery]) -> CallResult:
        """Call the handler for each delivery."""
        return CallResult.of(*await self._calls.call(map(envelope_of, deliveries)))

    def kill(self) -> None:
        """Do nothing: code in this process can't be killed."""


class InProcessRun:
    """Execute runs of jobs, each run in a thread, as a run's process does."""

    def __init__(self, _: RunResources, *, jobs: Mapping[str, Job]) -> None:
        self._runs = Runs(jobs.values())
        self._ready = asyncio.get_running_loop().create_future()
        self._ready.set_result(None)

    def ready(self) -> asyncio.Future[None]:
        """Return a finished future, because the user's code is already imported."""
        return self._ready

    async def run(self, order: RunOrder, *, lives_s: float) -> tuple[CallOutcome, ReportSnapshot]:  # noqa: ARG002 - the test ends it
        """Execute a run; return its outcome and its last report."""
        return await self._runs.run(order)

    async def poll(self, *, lives_s: float) -> ReportSnapshot:  # noqa: ARG002 - as above
        """Return the run's latest report."""
        return self._runs.poll()

    async def cancel(self) -> None:
        """Request the end of the run."""
        self._runs.cancel()

    def kill(self) -> None:
        """Request the end of the run; a function that ignores the request continues."""
        self._runs.cancel()
