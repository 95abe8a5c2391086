# `make docs` writes this file from async_leasing.py: change that file, and run `make docs`.
"""Process each record of the log at least once, with work outside of Postgres: lease a batch, work, acknowledge."""

import time
from contextlib import suppress
from dataclasses import replace

from shardclock.log.failures import LeaseLost, WorkFailed, error_text
from shardclock.log.sync_batch import Batch
from shardclock.log.sync_groups import take_lease
from shardclock.log.sync_keeping import work_under_lease
from shardclock.log.sync_member import Member
from shardclock.log.sync_reading import read_partition
from shardclock.log.sync_timing import GIVE_BACK_S, STOPS, LeasedWork, finish, limit
from shardclock.sql.sync_timers import Driver

LEASE_S = 30.0
LEASE_S_MAX = 3_600.0  # the longest lease, because a dead member blocks its partition until its lease ends


def lease_batch(driver: Driver, group: str, *, limit: int, lease_s: float = LEASE_S) -> Batch | None:
    """Lease the next records of a group's free partition with the oldest unread record; None: nothing to do.

    shape:   at most `limit` records; one record after a failure or an expired lease. The caller must release an empty
             batch, with its horizon as the position
    errors:  Errors of the driver: call again; an unused lease expires
    """
    taken = take_lease(driver, group, limit=limit, lease_s=lease_s)
    if taken is None:
        return None
    state, size = taken
    try:
        page = read_partition(driver, state, size)
    except Exception:
        _leave(Batch(driver, state, (), lease_s=lease_s))
        raise
    end = state.end_of([record.position for record in page.records], full=page.is_full)
    return Batch(driver, replace(state, horizon=end), page.records, lease_s=lease_s)


def consume_leased(member: Member, work: LeasedWork, lease_s: float) -> None:
    """Call `work` at least once for every record, in order, until stopped."""
    if not 0 < lease_s <= LEASE_S_MAX:
        raise ValueError(f"lease_s {lease_s} is not possible: give more than 0, at most {LEASE_S_MAX:.0f}")
    member.run(lambda: _turn(member, work, lease_s))


def _turn(member: Member, work: LeasedWork, lease_s: float) -> bool:
    began_s = time.monotonic()
    leased = lease_batch(member.link, member.group, limit=member.pace.records, lease_s=lease_s)
    batch = finish(leased, _leave_taken)
    if batch is None:
        return False
    try:
        _process(member, work, batch, began_s)
    except STOPS:
        _leave(batch)
        raise
    return True


def _process(member: Member, work: LeasedWork, batch: Batch, began_s: float) -> None:
    if not batch.records:
        _end(member, batch, worked=False)
        return
    if member.attempts is not None and batch.state.attempts >= member.attempts:
        member.set_aside(batch.state, batch.records[0], batch.state.attempts)
        return
    try:
        work_under_lease(member.log, work, batch)
    except LeaseLost as error:
        member.log.warning("lease lost", partition=batch.state.partition, error=str(error))
        member.pace.slow()
        _leave(batch)
    except Exception as error:  # noqa: BLE001 - any error of the work is logged and counted
        if not batch.unacknowledged:
            member.log.warning("work failed after all was acknowledged", error=error_text(error)[:500])
            _end(member, batch, worked=True)
        else:
            member.fail(WorkFailed(batch.state, batch.unacknowledged, error))
    else:
        member.pace.done(len(batch.records), time.monotonic() - began_s)
        _end(member, batch, worked=True)


def _leave_taken(batch: Batch | None) -> None:
    if batch is not None:
        _leave(batch)


def _leave(batch: Batch) -> None:
    """Release the lease after the work has ended, because an expired lease counts as a failure."""
    with suppress(Exception):
        with limit(GIVE_BACK_S):
            batch.give_back(batch.state.position, worked=False)


def _end(member: Member, batch: Batch, *, worked: bool) -> None:
    end = max(batch.state.horizon, batch.state.position)
    try:
        finish(batch.give_back(end, worked=worked))
    except LeaseLost as error:
        member.log.warning("lease lost after the work", partition=batch.state.partition, error=str(error))
