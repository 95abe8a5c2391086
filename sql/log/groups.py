"""Consumer groups: which there are, how far each is behind, and what an operator can do to them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sql.log.records import log_end
from sql.session import Session


class GroupDiffers(Exception):
    """The group does not have the number of partitions that its member asked for."""


class GroupDropped(Exception):
    """The group was dropped while a member was working for it."""


@dataclass(frozen=True, slots=True)
class Group:
    """One consumer group; `lag_s` is the age of the oldest record that it has not done yet, 0 if there is none."""

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
    """One record that a group gave up; `record` is the whole record as JSON."""

    position: int
    timer_key: int
    intent: str
    set_aside_at: datetime
    attempts: int
    error: str | None
    record: str


@dataclass(frozen=True, slots=True)
class Place:
    """The place of one partition of a group when a member took it; no new record can appear up to `horizon`.

    Without a `lease`, the partition is locked by the member's transaction.
    """

    group: str
    partition: int
    partitions: int
    position: int
    attempts: int
    horizon: int
    lease: int | None = None

    def end_of(self, positions: Sequence[int], *, full: bool) -> int:
        """Say up to which position all records are done after the work on a batch with these positions.

        A full batch ends with its last record. A batch that is not full has all records up to the horizon.
        """
        return positions[-1] if full else self.horizon


async def open_group(session: Session, group: str, partitions: int | None = None) -> int:
    """Register a group at the beginning of the log, if it is new; return how many partitions it has.

    errors:  GroupDiffers      it does not have the number that was asked for
             StoreUnavailable  call again
    source:  sql/log/open_group.sql
    """
    row = await session.row("open_group", group_name=group, partitions=partitions)
    assert row is not None
    has = int(row["partitions"])
    if partitions not in (None, has):
        raise GroupDiffers(
            f'group "{group}" has {has} partition(s), not {partitions}: ask for {has}, or stop its members and say'
            f" `shardclock consumers reset {group} --partitions {partitions}`"
        )
    return has


async def knows_group(session: Session, group: str) -> bool:
    """Say whether a group exists.

    errors:  StoreUnavailable  no answer in time
    source:  sql/log/knows_group.sql
    """
    row = await session.row("knows_group", group_name=group)
    return row is not None and bool(row["known"])


async def list_groups(session: Session, most: int | None = None) -> list[Group]:
    """List the groups by name; at most `most` of them, those that are furthest behind.

    errors:  StoreUnavailable  no answer in time
    source:  sql/log/list_groups.sql
    """
    return [Group(**dict(row)) for row in await session.rows("list_groups", most=most)]


async def list_aside(session: Session, group: str, *, limit: int = 100) -> list[SetAside]:
    """List the records that a group has set aside, the newest first.

    errors:  StoreUnavailable  no answer in time
    source:  sql/log/list_aside.sql
    """
    return [SetAside(**dict(row)) for row in await session.rows("list_aside", group_name=group, page_size=limit)]


async def reset_group(
    session: Session, group: str, *, position: int | None = None, partitions: int | None = None
) -> int | None:
    """Move a group to another place, or give it another number of partitions.

    shape:   its place now; None if there is no such group
    errors:  StatementRefused  the place is beyond the log's end; or, without a place: not all partitions have read
                               equally far
             StoreUnavailable  a member has worked for too long, or no answer: read the group's place, and call again
    source:  sql/log/reset_group.sql
    """
    row = await session.row("reset_group", group_name=group, place=position, partitions=partitions)
    return None if row is None else row["position"]


async def drop_group(session: Session, group: str) -> bool:
    """Delete a group and the records that it has set aside; False if there is no such group.

    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/log/drop_group.sql
    """
    return bool(await session.rows("drop_group", group_name=group))


async def place_of(session: Session, moment: datetime) -> int:
    """Find the place in the log before the first record that was written at a moment or later.

    errors:  StoreUnavailable  no answer in time
    source:  sql/log/place_of.sql, log_end.sql
    """
    row = await session.row("place_of", moment=moment, horizon=await log_end(session))
    assert row is not None
    return int(row["position"])


async def note_failure(session: Session, place: Place, error: str, *, alone: bool, wait_s: float) -> int | None:
    """Record that the work on the next records has failed.

    shape:   how often the next record has failed alone; None if another member has done the work meanwhile
    errors:  StoreUnavailable  ignore it: the work will fail again
    source:  sql/log/note_failure.sql
    """
    row = await session.row(
        "note_failure",
        group_name=place.group,
        partition=place.partition,
        position=place.position,
        lease=place.lease,
        alone=alone,
        error=error[:1_000],
        wait=timedelta(seconds=wait_s),
    )
    return None if row is None else int(row["attempts"])


async def set_record_aside(session: Session, place: Place, record_position: int, *, attempts: int) -> bool:
    """Set the next record aside, whole and with the error, and move the place behind it.

    errors:  StoreUnavailable  the outcome is unknown: the group's place shows it
    source:  sql/log/set_record_aside.sql
    """
    rows = await session.rows(
        "set_record_aside",
        group_name=place.group,
        partition=place.partition,
        position=place.position,
        record_position=record_position,
        attempts=attempts,
    )
    return bool(rows)
