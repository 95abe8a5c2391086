"""Renew a lease while the work on its batch lasts, in an event loop; `sync_keeping` does it in a thread."""

import asyncio
import time

from shardclock.log.async_batch import AsyncBatch
from shardclock.log.async_timing import AsyncLeasedWork
from shardclock.log.failing import LeaseLost, WorkCancelled
from shardclock.log.saying import GroupLog, Lasting


async def work_under_lease(log: GroupLog, work: AsyncLeasedWork, batch: AsyncBatch) -> None:
    """Do the work and renew its lease meanwhile; if the lease can't be renewed, cancel the work.

    errors:  LeaseLost  the work was cancelled, and has ended
             others     of the work
    """
    working = asyncio.ensure_future(work(batch))
    keeping = asyncio.create_task(_keep(log, batch))
    both = {working, keeping}
    try:
        # Not `await working`: when we cancel it, that would look as if we were cancelled from outside.
        done, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in both:
            task.cancel()
        # If we are cancelled here, gather cancels both once more, and we leave when they have ended.
        await asyncio.gather(*both, return_exceptions=True)
    if working in done:
        if working.cancelled():  # before we cancelled it
            raise WorkCancelled
        return working.result()
    error = keeping.exception()
    raise error if isinstance(error, LeaseLost) else LeaseLost(f"it can't be renewed: {error}") from error


async def _keep(log: GroupLog, batch: AsyncBatch) -> None:
    """Renew the lease until cancelled, or until it can't be renewed."""
    lasting = Lasting(log, time.monotonic())
    while True:
        await asyncio.sleep(batch.lease_s / 3)
        await batch.renew()
        lasting.say(time.monotonic(), len(batch.records), batch.place)
