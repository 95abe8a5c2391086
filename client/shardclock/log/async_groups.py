"""Consumer groups, as a member needs them: it registers one, leases from it, moves its place, counts its failures."""

import json
import os
import socket
from dataclasses import replace
from typing import Any

from shardclock.log.failing import GroupDiffers, LeaseLost
from shardclock.log.place import PartitionPlace
from shardclock.sql.asked import written
from shardclock.sql.async_timers import AsyncDriver
from shardclock.sql.statement import statement

ERROR_CHARS_MAX = 1_000


async def open_group(driver: AsyncDriver, group: str, partitions: int | None = None) -> int:
    """Register a group at the beginning of the log, if it is new; return how many partitions it has.

    errors:  GroupDiffers  it does not have the number that was asked for
             others        of the driver: call again
    source:  client/shardclock/sql/statements/open_group.sql
    """
    found = await _ask(driver, "open_group", group_name=group, partitions=partitions)
    assert found is not None
    has = int(found["partitions"])
    if partitions not in (None, has):
        raise GroupDiffers(
            f'group "{group}" has {has} partition(s), not {partitions}: ask for {has}, or stop its members and say'
            f" `shardclock consumers reset {group} --partitions {partitions}`"
        )
    return has


async def knows_group(driver: AsyncDriver, group: str) -> bool:
    """Say whether a group exists.

    errors:  those of the driver
    source:  client/shardclock/sql/statements/knows_group.sql
    """
    return await _ask(driver, "knows_group", group_name=group) is not None


async def note_failure(
    driver: AsyncDriver, place: PartitionPlace, error: str, *, alone: bool, wait_s: float
) -> int | None:
    """Record that the work on the next records has failed.

    shape:   how often the next record has failed alone; None if another member has done the work meanwhile
    errors:  those of the driver: ignore them, the work will fail again
    source:  client/shardclock/sql/statements/note_failure.sql
    """
    found = await _ask(
        driver,
        "note_failure",
        group_name=place.group,
        partition=place.partition,
        position=place.position,
        lease=place.lease,
        alone=alone,
        error=error[:ERROR_CHARS_MAX],
        wait_s=wait_s,
    )
    return None if found is None else int(found["attempts"])


async def set_record_aside(driver: AsyncDriver, place: PartitionPlace, record_position: int, *, attempts: int) -> bool:
    """Set the next record aside, whole and with the error, and move the place behind it.

    errors:  those of the driver: the outcome is unknown, and the group's place shows it
    source:  client/shardclock/sql/statements/set_record_aside.sql
    """
    found = await _ask(
        driver,
        "set_record_aside",
        group_name=place.group,
        partition=place.partition,
        position=place.position,
        record_position=record_position,
        attempts=attempts,
    )
    return found is not None


async def take_lease(
    driver: AsyncDriver, group: str, *, limit: int, lease_s: float
) -> tuple[PartitionPlace, int] | None:
    """Lease the free partition of a group that is furthest behind.

    shape:   its place, and how many records the lease is on at most; None if there is nothing to do
    errors:  those of the driver: call again; a lease that was taken runs out by itself
    source:  client/shardclock/sql/statements/take_lease.sql
    """
    member = f"{socket.gethostname()} {os.getpid()}"
    found = await _ask(driver, "take_lease", group_name=group, member=member, lease_s=lease_s, records_max=limit)
    if found is None:
        return None
    size = found.pop("leased_records")
    return PartitionPlace(group=group, **found), size


async def move_place(
    driver: AsyncDriver, place: PartitionPlace, position: int, *, worked: bool, keep_s: float | None
) -> PartitionPlace:
    """Record that a leased partition is done up to a position; keep the lease for so long from now, or end it.

    errors:  LeaseLost  another member has the partition
             others     of the driver: the outcome is unknown, call again
    source:  client/shardclock/sql/statements/acknowledge.sql
    """
    found = await _ask(
        driver,
        "acknowledge",
        group_name=place.group,
        partition=place.partition,
        lease=place.lease,
        position=position,
        worked=worked,
        keep_s=keep_s,
    )
    if found is None:
        raise LeaseLost(f"another member of {place.group} has partition {place.partition}")
    return replace(place, position=found["position"])


async def take_partition(driver: AsyncDriver, group: str) -> dict[str, Any] | None:
    """Lock the free partition of a group that is furthest behind, until the transaction ends; None if there is none.

    shape:   the fields of a place, with transaction and started_at
    source:  client/shardclock/sql/statements/take_partition.sql
    """
    return await _ask(driver, "take_partition", group_name=group)


async def advance_place(
    driver: AsyncDriver, place: PartitionPlace, position: int, *, worked: bool, transaction: int
) -> bool:
    """Record that a locked partition is done up to a position; False if that transaction has ended.

    source:  client/shardclock/sql/statements/advance_place.sql
    """
    found = await _ask(
        driver,
        "advance_place",
        group_name=place.group,
        partition=place.partition,
        position=position,
        worked=worked,
        transaction=transaction,
    )
    return found is not None


async def read_start(driver: AsyncDriver) -> float:
    """Read when the server was started, in seconds.

    source:  client/shardclock/sql/statements/read_start.sql
    """
    found = await _ask(driver, "read_start")
    assert found is not None
    return float(found["started_at"])


async def _ask(driver: AsyncDriver, name: str, **asked: object) -> dict[str, Any] | None:
    answer = await driver.answer(statement(name), written(asked))
    return None if answer is None else json.loads(answer)
