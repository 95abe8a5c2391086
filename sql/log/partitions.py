"""Create the command log's daily partitions ahead of time, and drop old partitions."""

from dataclasses import dataclass
from datetime import date

from shardclock_server.sql.session import Session


@dataclass(frozen=True, slots=True)
class OldestDay:
    """The log's oldest partition, if its retention time is over.

    The partition is kept if a consumer group has not read all its records.
    """

    day: date
    dropped: bool
    kept_for: str | None


async def ensure_log_partitions(session: Session) -> int:
    """Create the missing partitions for today and the week ahead; return the number of new partitions.

    errors:  StoreUnavailable  no answer in time, or another transaction, for example a dump, has locked the log: call
             again later
    source:  sql/log/ensure_log_partitions.sql
    """
    row = await session.row("ensure_log_partitions")
    return row["made"] if row else 0


async def mark_day(session: Session) -> None:
    """Record that a coordinator leads today; `drop_log_partition` counts these days, so that a wrong clock drops
    nothing.

    errors:  StoreUnavailable  no answer before the timeout: call again
    source:  sql/log/mark_day.sql
    """
    await session.rows("mark_day")


async def drop_log_partition(session: Session, *, keep_days: int) -> OldestDay | None:
    """Drop the log's oldest partition if it is old enough; None if no partition is old enough.

    A partition may be dropped after `keep_days` later days on which a coordinator led.

    errors:  StoreUnavailable  another transaction has locked the partition or the log: call again later
    source:  sql/functions/log/drop_log_partition.sql
    """
    rows = await session.call("drop_log_partition", keep_days=keep_days)
    return OldestDay(*rows[0]) if rows else None


async def forget_holders(session: Session, *, keep_days: int) -> None:
    """Delete holders that ended more than `keep_days` days ago.

    errors:  StoreUnavailable  no answer before the timeout: call again
    source:  sql/log/forget_holders.sql
    """
    await session.rows("forget_holders", keep_days=keep_days)
