"""A worker that acts when it is told to, and not in loops: for a test that moves the clock by hand."""

import asyncio

from shardclock_server.workers.worker import Worker


class SteppedWorker(Worker):
    """Call what is due, step by step; all that a step does is the worker's own."""

    _endpoint_loop: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Register the holder, and begin to call what the steps will claim."""
        self.open()
        await self.beat_turn()
        (endpoints,) = self.deliveries.endpoints.loops()
        self._endpoint_loop = asyncio.create_task(
            self._loops.until_stopped(endpoints.name, endpoints.turn, self.deliveries.endpoints.asked), name="endpoints"
        )

    async def step(self) -> None:
        """Claim deliveries that are due, call their targets, and settle how each attempt has ended.

        errors:  StoreUnavailable  what is in hand is called again when its lease has run out
                 any other         a fault of ours ended a call
        """
        again = True
        while again:
            again = await self.deliveries.claim_all()
            await self.finish()

    async def step_runs(self) -> None:
        """Begin runs of jobs that are due, and write how they have ended.

        errors:  as `step`
        """
        if self.runs.has_jobs:
            self.runs.look_soon()
            await self.runs.run_turn()
            await self.finish()

    async def finish(self) -> None:
        """Wait until nothing is in hand, and settle how it has ended.

        errors:  as `step`
        """
        await self.deliveries.finish(self._loops.check)
        await self.runs.until_ended()

    async def end(self) -> None:
        """Break off what is being called, and end the holder."""
        self._stop()
        if self._endpoint_loop is not None:
            await self._endpoint_loop
        await self._let_calls_end()
        await self._hand_back()
