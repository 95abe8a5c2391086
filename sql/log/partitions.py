"""The command log's daily partitions, made ahead of time and dropped when they are old."""

from dataclasses import dataclass
from datetime import date

from shardclock_server.sql.session import Session


@dataclass(frozen=True, slots=True)
class OldestDay:
    """The log's oldest partition, which was due to be dropped. It is kept if a group has not read it."""

    day: date
    dropped: bool
    kept_for: str | None


async def ensure_log_partitions(session: Session) -> int:
    """Make the partitions for today and the week ahead; return how many were missing.

    errors:  StoreUnavailable  no answer in time, or a transaction, such as a dump, has locked the log: call again later
    source:  sql/log/ensure_log_partitions.sql
    """
    row = await session.row("ensure_log_partitions")
    return row["made"] if row else 0


async def mark_day(session: Session) -> None:
    """Record that a coordinator leads today: `drop_log_partition` counts these days, even if the clock changes later.

    errors:  StoreUnavailable  no answer in time: call again
    source:  sql/log/mark_day.sql
    """
    await session.rows("mark_day")


async def drop_log_partition(session: Session, *, keep_days: int) -> OldestDay | None:
    """Drop the log's oldest partition if it is old enough; None if all partitions stay.

    A partition may be dropped after `keep_days` later days on which a coordinator led.

    errors:  StoreUnavailable  another transaction holds a lock on the partition or on the log: call again later
    source:  sql/functions/log/drop_log_partition.sql
    """
    rows = await session.call("drop_log_partition", keep_days=keep_days)
    return OldestDay(*rows[0]) if rows else None


async def forget_holders(session: Session, *, keep_days: int) -> None:
    """Delete holders that ended more than `keep_days` days ago.

    errors:  StoreUnavailable  no answer in time: call again
    source:  sql/log/forget_holders.sql
    """
    await session.rows("forget_holders", keep_days=keep_days)
