"""Do work for each record of the log outside of Postgres: lease a batch, work, acknowledge. At least once."""

import time
from contextlib import suppress
from dataclasses import replace

from shardclock.log.async_batch import AsyncBatch
from shardclock.log.async_groups import take_lease
from shardclock.log.async_keeping import work_under_lease
from shardclock.log.async_member import AsyncMember
from shardclock.log.async_reading import read_place
from shardclock.log.async_timing import GIVE_BACK_S, STOPS, AsyncLeasedWork, finish, limit
from shardclock.log.failing import LeaseLost, WorkFailed, told
from shardclock.sql.async_timers import AsyncDriver

LEASE_S = 30.0
LEASE_S_MAX = 3_600.0  # a group of one partition waits as long when its member dies


async def lease_batch(driver: AsyncDriver, group: str, *, limit: int, lease_s: float = LEASE_S) -> AsyncBatch | None:
    """Lease the next records in the free partition of a group that is furthest behind; None if there is nothing.

    shape:   at most `limit` records, one if it has failed or a lease ran out; without any, give back at the horizon
    errors:  those of the driver: call again; a lease that was taken runs out by itself
    """
    taken = await take_lease(driver, group, limit=limit, lease_s=lease_s)
    if taken is None:
        return None
    place, size = taken
    try:
        page = await read_place(driver, place, size)
    except Exception:
        await _leave(AsyncBatch(driver, place, (), lease_s=lease_s))
        raise
    end = place.end_of([record.position for record in page.records], full=page.is_full)
    return AsyncBatch(driver, replace(place, horizon=end), page.records, lease_s=lease_s)


async def consume_leased(member: AsyncMember, work: AsyncLeasedWork, lease_s: float) -> None:
    """Do a group's work for every record, in order, each at least once, until stopped."""
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
    if member.attempts is not None and batch.place.attempts >= member.attempts:
        await member.set_aside(batch.place, batch.records[0], batch.place.attempts)
        return
    try:
        await work_under_lease(member.log, work, batch)
    except LeaseLost as error:
        member.log.warning("lease lost", partition=batch.place.partition, error=str(error))
        member.pace.slow()
        await _leave(batch)
    except Exception as error:  # noqa: BLE001 - any error of the work is said and counted
        if not batch.unacknowledged:
            member.log.warning("work failed after all was acknowledged", error=told(error)[:500])
            await _end(member, batch, worked=True)
        else:
            await member.fail(WorkFailed(batch.place, batch.unacknowledged, error))
    else:
        member.pace.done(len(batch.records), time.monotonic() - began_s)
        await _end(member, batch, worked=True)


async def _leave_taken(batch: AsyncBatch | None) -> None:
    if batch is not None:
        await _leave(batch)


async def _leave(batch: AsyncBatch) -> None:
    """Give back a lease that is still ours, when the work has ended: else it runs out, which counts as a failure."""
    with suppress(Exception):
        async with limit(GIVE_BACK_S):
            await batch.give_back(batch.place.position, worked=False)


async def _end(member: AsyncMember, batch: AsyncBatch, *, worked: bool) -> None:
    end = max(batch.place.horizon, batch.place.position)
    try:
        await finish(batch.give_back(end, worked=worked))
    except LeaseLost as error:
        member.log.warning("lease lost after the work", partition=batch.place.partition, error=str(error))
