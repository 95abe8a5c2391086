"""Notifications of new log records, from shards to waiting consumers.

If a notification is lost, the next poll finds the rows.
"""

from shardclock_server.sql.session import Session


async def notify_of_records(session: Session) -> bool:
    """Notify waiting consumers of new records; return False if there is no group.

    errors:  StoreUnavailable  no answer before the timeout: ignore this error
    source:  sql/log/notify_of_records.sql
    """
    return bool(await session.rows("notify_of_records"))
