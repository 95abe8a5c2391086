"""Process each record of the log at least once, with work outside of Postgres: lease a batch, work, acknowledge."""

import time
from contextlib import suppress
from dataclasses import replace

from shardclock.log.async_batch import AsyncBatch
from shardclock.log.async_groups import take_lease
from shardclock.log.async_keeping import work_under_lease
from shardclock.log.async_member import AsyncMember
from shardclock.log.async_reading import read_partition
from shardclock.log.async_timing import GIVE_BACK_S, STOPS, AsyncLeasedWork, finish, limit
from shardclock.log.failures import LeaseLost, WorkFailed, error_text
from shardclock.sql.async_timers import AsyncDriver

LEASE_S = 30.0
LEASE_S_MAX = 3_600.0  # the longest lease, because a dead member blocks its partition until its lease ends


async def lease_batch(driver: AsyncDriver, group: str, *, limit: int, lease_s: float = LEASE_S) -> AsyncBatch | None:
    """Lease the next records of a group's free partition with the oldest unread record; None: nothing to do.

    shape:   at most `limit` records; one record after a failure or an expired lease. The caller must release an empty
             batch, with its horizon as the position
    errors:  Errors of the driver: call again; an unused lease expires
    """
    taken = await take_lease(driver, group, limit=limit, lease_s=lease_s)
    if taken is None:
        return None
    state, size = taken
    try:
        page = await read_partition(driver, state, size)
    except Exception:
        await _leave(AsyncBatch(driver, state, (), lease_s=lease_s))
        raise
    end = state.end_of([record.position for record in page.records], full=page.is_full)
    return AsyncBatch(driver, replace(state, horizon=end), page.records, lease_s=lease_s)


async def consume_leased(member: AsyncMember, work: AsyncLeasedWork, lease_s: float) -> None:
    """Call `work` at least once for every record, in order, until stopped."""
    if not 0 < lease_s <= LEASE_S_MAX:
        raise ValueError(f"lease_s {lease_s} is not possible: give more than 0, at most {LEASE_S_MAX:.0f}")
    await member.run(lambda: _turn(member, work, lease_s))


async def _turn(member: AsyncMember, work: AsyncLeasedWork, lease_s: float) -> bool:
    began_s = time.monotonic()
    leased = lease_batch(member.link, member.group, limit=member.pace.records, lease_s=lease_s)
    batch = await finish(leased, _leave_taken)
    if batch is None:
        return False
    try:
        await _process(member, work, batch, began_s)
    except STOPS:
        await _leave(batch)
        raise
    return True


async def _process(member: AsyncMember, work: AsyncLeasedWork, batch: AsyncBatch, began_s: float) -> None:
    if not batch.records:
        await _end(member, batch, worked=False)
        return
    if member.attempts is not None and batch.state.attempts >= member.attempts:
        await member.set_aside(batch.state, batch.records[0], batch.state.attempts)
        return
    try:
        await work_under_lease(member.log, work, batch)
    except LeaseLost as error:
        member.log.warning("lease lost", partition=batch.state.partition, error=str(error))
        member.pace.slow()
        await _leave(batch)
    except Exception as error:  # noqa: BLE001 - any error of the work is logged and counted
        if not batch.unacknowledged:
            member.log.warning("work failed after all was acknowledged", error=error_text(error)[:500])
            await _end(member, batch, worked=True)
        else:
            await member.fail(WorkFailed(batch.state, batch.unacknowledged, error))
    else:
        member.pace.done(len(batch.records), time.monotonic() - began_s)
        await _end(member, batch, worked=True)


async def _leave_taken(batch: AsyncBatch | None) -> None:
    if batch is not None:
        await _leave(batch)


async def _leave(batch: AsyncBatch) -> None:
    """Release the lease after the work has ended, because an expired lease counts as a failure."""
    with suppress(Exception):
        async with limit(GIVE_BACK_S):
            await batch.give_back(batch.state.position, worked=False)


async def _end(member: AsyncMember, batch: AsyncBatch, *, worked: bool) -> None:
    end = max(batch.state.horizon, batch.state.position)
    try:
        await finish(batch.give_back(end, worked=worked))
    except LeaseLost as error:
        member.log.warning("lease lost after the work", partition=batch.state.partition, error=str(error))
