"""Notifications of new deliveries, and of new signals to instances.

If a notification is lost, the next poll finds the rows.
"""

from shardclock_server.sql.session import Session

DELIVERIES = "shardclock_deliveries"  # The channel to which workers listen.
JOBS = "jobs"  # The text of a notification if a start of a job is among the deliveries.
SIGNALS = "shardclock_signals"  # The channel to which engines listen.


async def notify_of_deliveries(session: Session) -> bool:
    """Notify workers if targets exist, and engines if a signal is due; return False if no notification was sent.

    errors:  StoreUnavailable  no answer before the timeout: ignore the error
    source:  sql/deliveries/notify_of_deliveries.sql
    """
    return bool(await session.rows("notify_of_deliveries"))


async def notify_of_signals(session: Session) -> bool:
    """Notify engines that a client has sent signals.

    Don't call this in the client's transaction: NOTIFY would block the commits of other transactions.

    errors:  StoreUnavailable  no answer before the timeout: ignore the error
    source:  sql/deliveries/notify_of_signals.sql
    """
    return bool(await session.rows("notify_of_signals"))
