"""Renew a lease during the work on its batch, in a task of the event loop; `sync_keeping` uses a thread."""

import asyncio
import time

from shardclock.log.async_batch import AsyncBatch
from shardclock.log.async_timing import AsyncLeasedWork
from shardclock.log.failures import LeaseLost, WorkCancelled
from shardclock.log.group_log import BatchTimer, GroupLog


async def work_under_lease(log: GroupLog, work: AsyncLeasedWork, batch: AsyncBatch) -> None:
    """Call the work and renew the batch's lease until the work ends; if a renewal fails, cancel the work.

    errors:  LeaseLost  the work was cancelled, and has ended.
             Exception  an error of the work.
    """
    working = asyncio.ensure_future(work(batch))
    keeping = asyncio.create_task(_keep(log, batch))
    both = {working, keeping}
    try:
        # Don't use `await working`: if this function cancels `working`, the await ends as if the member were
        # cancelled.
        done, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in both:
            task.cancel()
        # If the member is cancelled during the gather, gather cancels both tasks again, and returns when they have
        # ended.
        await asyncio.gather(*both, return_exceptions=True)
    if working in done:
        if working.cancelled():  # other code has cancelled the work
            raise WorkCancelled
        return working.result()
    error = keeping.exception()
    raise error if isinstance(error, LeaseLost) else LeaseLost(f"the lease can't be renewed: {error}") from error


async def _keep(log: GroupLog, batch: AsyncBatch) -> None:
    """Renew the lease until cancelled, or until a renewal fails."""
    timer = BatchTimer(log, time.monotonic())
    while True:
        await asyncio.sleep(batch.lease_s / 3)
        await batch.renew()
        timer.log_if_due(time.monotonic(), len(batch.records), batch.state)
