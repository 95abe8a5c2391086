"""Notifications from gateways to shards that a timer is due now.

If a notification is lost, the next poll finds the timer.
"""

from shardclock_server.sql.session import Session

# The default time between two polls of a shard. A timer that is due later needs no notification.
SHARD_POLL_S = 0.1
DUE = "shardclock_due"  # the channel to which shards listen


async def notify_of_due_timers(session: Session) -> bool:
    """Notify shards to claim now.

    Don't call this in the transaction that schedules the timer: NOTIFY would block the commits of other transactions.

    errors:  StoreUnavailable  no answer before the timeout: ignore this error
    source:  sql/claims/notify_of_due_timers.sql
    """
    return bool(await session.rows("notify_of_due_timers"))
