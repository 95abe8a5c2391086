"""List consumer groups with their lag, and change groups for operators."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from shardclock.log.async_reading import log_end
from shardclock_server.sql.session import Session


@dataclass(frozen=True, slots=True)
class Group:
    """One consumer group; `lag_s` is the age of the oldest unprocessed record, or 0 if all records are processed."""

    group_name: str
    partitions: int
    position: int
    lag_records: int
    lag_s: float
    idle_s: float | None
    attempts: int
    failures: int
    set_aside: int
    error: str | None
    members: Sequence[str]


@dataclass(frozen=True, slots=True)
class SetAside:
    """One record that was set aside for a group after several failed attempts; `record` is the whole record as JSON."""

    position: int
    timer_key: int
    intent: str
    set_aside_at: datetime
    attempts: int
    error: str | None
    record: str


async def list_groups(session: Session, most: int | None = None) -> list[Group]:
    """List the groups by name; if there are more than `most`, list the groups with the largest lag.

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/log/list_groups.sql
    """
    return [Group(**dict(row)) for row in await session.rows("list_groups", most=most)]


async def list_aside(session: Session, group: str, *, limit: int = 100) -> list[SetAside]:
    """List the records set aside for a group, newest first.

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/log/list_aside.sql
    """
    return [SetAside(**dict(row)) for row in await session.rows("list_aside", group_name=group, page_size=limit)]


async def reset_group(
    session: Session, group: str, *, position: int | None = None, partitions: int | None = None
) -> int | None:
    """Move a group to another position, or change its number of partitions.

    shape:   the group's new position; None if the group does not exist
    errors:  StatementRefused  the position is after the log's end; or no position is given, and a partition has unread
                               records before the group's highest position
             StoreUnavailable  no answer in time, for example because a member is working in a transaction: read the
                               group's position, and call again
    source:  sql/functions/log/reset_group.sql
    """
    found: int | None = await session.call_one(
        "reset_group", group_name=group, new_position=position, partitions=partitions
    )
    return found


async def drop_group(session: Session, group: str) -> bool:
    """Delete a group, and the records that were set aside for the group; return False if the group does not exist.

    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/log/drop_group.sql
    """
    return bool(await session.rows("drop_group", group_name=group))


async def position_at(session: Session, moment: datetime) -> int:
    """Find the position before the first record that was written at a moment or later.

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/log/position_at.sql, client/shardclock/sql/statements/log_end.sql
    """
    row = await session.row("position_at", moment=moment, horizon=await log_end(session))
    assert row is not None
    return int(row["position"])
