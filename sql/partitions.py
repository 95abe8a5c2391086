"""What is kept of the past: the command log's daily partitions, made ahead and dropped behind."""

from dataclasses import dataclass
from datetime import date

from sql.session import Session


@dataclass(frozen=True, slots=True)
class OldestDay:
    """The log's oldest day, older than what is kept: dropped, or kept for a group that has yet to read it."""

    day: date
    dropped: bool
    kept_for: str | None


async def ensure_log_partitions(session: Session) -> int:
    """Make the partitions for today and the week ahead; how many were missing comes back.

    errors:  StoreUnavailable  no answer in time: call again
    source:  sql/queries/ensure_log_partitions.sql
    """
    row = await session.row("ensure_log_partitions")
    return row["made"] if row else 0


async def drop_log_partition(session: Session, *, keep_days: int) -> OldestDay | None:
    """Drop the log's oldest day if it may go; None if every day is still kept.

    errors:  StoreUnavailable  somebody is reading or writing that can't wait: call again later
    source:  sql/queries/drop_log_partition.sql
    """
    row = await session.row("drop_log_partition", keep_days)
    return OldestDay(*row) if row else None


async def forget_holders(session: Session, *, keep_days: int) -> None:
    """Forget holders that ended before the oldest day that is kept.

    errors:  StoreUnavailable  no answer in time: call again
    source:  sql/queries/forget_holders.sql
    """
    await session.rows("forget_holders", keep_days)
