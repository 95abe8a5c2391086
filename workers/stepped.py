"""A worker without loops, for a test that moves the clock."""

import asyncio

from shardclock_server.workers.worker import Worker


class SteppedWorker(Worker):
    """A worker that claims, calls and settles deliveries only when a method is called."""

    _endpoint_loop: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Register the worker, and start the loop of endpoints."""
        self.open()
        await self.beat_turn()
        (endpoints,) = self.deliveries.endpoints.loops()
        self._endpoint_loop = asyncio.create_task(
            self._loops.until_stopped(endpoints.name, endpoints.turn, self.deliveries.endpoints.refresh_wanted),
            name="endpoints",
        )

    async def step(self) -> None:
        """Claim due deliveries, call their targets, and settle the outcomes.

        errors:  StoreUnavailable  unsettled deliveries are called again after their leases have expired
                 any other         an error in the worker interrupted a call
        """
        again = True
        while again:
            again = await self.deliveries.claim_all()
            await self.finish()

    async def step_runs(self) -> None:
        """Execute due runs of jobs, and write their outcomes.

        errors:  as `step`
        """
        if self.runs.has_jobs:
            self.runs.poll_soon()
            await self.runs.run_turn()
            await self.finish()

    async def finish(self) -> None:
        """Wait until all calls and runs have ended, and write their outcomes.

        errors:  as `step`
        """
        await self.deliveries.finish(self._loops.check)
        await self.runs.until_ended()

    async def end(self) -> None:
        """Cancel all calls, and end the worker's registration."""
        self._stop()
        if self._endpoint_loop is not None:
            await self._endpoint_loop
        await self._let_calls_end()
        await self._hand_back()
