"""Register a group, lease its partitions, move its position and count failures: the statements of one member."""

import json
import os
import socket
from dataclasses import replace
from typing import Any

from shardclock.log.failures import GroupDiffers, LeaseLost
from shardclock.log.partition import PartitionState
from shardclock.sql.arguments import written
from shardclock.sql.async_timers import AsyncDriver
from shardclock.sql.statement import statement

ERROR_CHARS_MAX = 1_000


async def open_group(driver: AsyncDriver, group: str, partitions: int | None = None) -> int:
    """Register a new group at the beginning of the log; return the number of partitions of the new or existing group.

    errors:  GroupDiffers  the group's number of partitions is not `partitions`.
             Exception     an error of the driver: call again.
    source:  client/shardclock/sql/statements/open_group.sql
    """
    found = await _ask(driver, "open_group", group_name=group, partitions=partitions)
    assert found is not None
    has = int(found["partitions"])
    if partitions not in (None, has):
        raise GroupDiffers(
            f'group "{group}" has {has} partition(s), not {partitions}: ask for {has}, or stop its members and run'
            f" `shardclock consumers reset {group} --partitions {partitions}`"
        )
    return has


async def knows_group(driver: AsyncDriver, group: str) -> bool:
    """Return whether a group exists.

    errors:  Errors of the driver
    source:  client/shardclock/sql/statements/knows_group.sql
    """
    return await _ask(driver, "knows_group", group_name=group) is not None


async def note_failure(
    driver: AsyncDriver, state: PartitionState, error: str, *, alone: bool, wait_s: float
) -> int | None:
    """Store a failure of the work on a partition's next records.

    shape:   how many times the next record has failed as the only record of a batch; None: another member has done the
             work
    errors:  Errors of the driver: the caller ignores these errors, because the work will fail again
    source:  client/shardclock/sql/statements/note_failure.sql
    """
    found = await _ask(
        driver,
        "note_failure",
        group_name=state.group,
        partition=state.partition,
        position=state.position,
        lease=state.lease,
        alone=alone,
        error=error[:ERROR_CHARS_MAX],
        wait_s=wait_s,
    )
    return None if found is None else int(found["attempts"])


async def set_record_aside(driver: AsyncDriver, state: PartitionState, record_position: int, *, attempts: int) -> bool:
    """Store the next record and its error in `records_aside`, and move the position beyond the record.

    errors:  Errors of the driver: the outcome is unknown; the group's position shows the outcome
    source:  client/shardclock/sql/statements/set_record_aside.sql
    """
    found = await _ask(
        driver,
        "set_record_aside",
        group_name=state.group,
        partition=state.partition,
        position=state.position,
        record_position=record_position,
        attempts=attempts,
    )
    return found is not None


async def take_lease(
    driver: AsyncDriver, group: str, *, limit: int, lease_s: float
) -> tuple[PartitionState, int] | None:
    """Lease a group's free partition with the oldest unread record.

    shape:   the partition's state, and the largest number of records under the lease; None: no record can be read
    errors:  Errors of the driver: call again; an unused lease expires
    source:  client/shardclock/sql/statements/take_lease.sql
    """
    member = f"{socket.gethostname()} {os.getpid()}"
    found = await _ask(driver, "take_lease", group_name=group, member=member, lease_s=lease_s, records_max=limit)
    if found is None:
        return None
    size = found.pop("leased_records")
    return PartitionState(group=group, **found), size


async def acknowledge_partition(
    driver: AsyncDriver, state: PartitionState, position: int, *, worked: bool, keep_s: float | None
) -> PartitionState:
    """Store the position up to which a leased partition is done; extend the lease by `keep_s`, or end the lease.

    errors:  LeaseLost  another member has the partition.
             Exception  an error of the driver: the outcome is unknown, call again.
    source:  client/shardclock/sql/statements/acknowledge.sql
    """
    found = await _ask(
        driver,
        "acknowledge",
        group_name=state.group,
        partition=state.partition,
        lease=state.lease,
        position=position,
        worked=worked,
        keep_s=keep_s,
    )
    if found is None:
        raise LeaseLost(f"another member of {state.group} has partition {state.partition}")
    return replace(state, position=found["position"])


async def take_partition(driver: AsyncDriver, group: str) -> dict[str, Any] | None:
    """Lock a group's free partition with the oldest unread record until the transaction ends; None: nothing to do.

    shape:   the fields of a partition's state, and `transaction` and `started_at`
    source:  client/shardclock/sql/statements/take_partition.sql
    """
    return await _ask(driver, "take_partition", group_name=group)


async def advance_partition(
    driver: AsyncDriver, state: PartitionState, position: int, *, worked: bool, transaction: int
) -> bool:
    """Move the position of a locked partition; False: the transaction that locked the partition has ended.

    source:  client/shardclock/sql/statements/advance_partition.sql
    """
    found = await _ask(
        driver,
        "advance_partition",
        group_name=state.group,
        partition=state.partition,
        position=position,
        worked=worked,
        transaction=transaction,
    )
    return found is not None


async def read_start(driver: AsyncDriver) -> float:
    """Read the start time of the server, in seconds.

    source:  client/shardclock/sql/statements/read_start.sql
    """
    found = await _ask(driver, "read_start")
    assert found is not None
    return float(found["started_at"])


async def _ask(driver: AsyncDriver, name: str, **asked: object) -> dict[str, Any] | None:
    answer = await driver.answer(statement(name), written(asked))
    return None if answer is None else json.loads(answer)
