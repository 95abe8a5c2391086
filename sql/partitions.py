"""The command log's daily partitions."""

from sql.session import Session


async def ensure_log_partitions(session: Session) -> int:
    """Make the partitions for today and the week ahead; how many were missing comes back.

    errors:  StoreUnavailable  no answer in time: call again
    source:  sql/queries/ensure_log_partitions.sql
    """
    row = await session.row("ensure_log_partitions")
    return row["made"] if row else 0
