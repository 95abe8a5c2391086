"""Hints that there are new deliveries, and new signals to instances. A lost hint costs a poll."""

from shardclock_server.sql.session import Session

DELIVERIES = "shardclock_deliveries"  # the channel that workers hear
JOBS = "jobs"  # what a hint to them says if a start of a job is among the deliveries
SIGNALS = "shardclock_signals"  # the channel that engines hear


async def send_delivery_hint(session: Session) -> bool:
    """Tell workers to look for deliveries, and engines for signals; False if there is nobody to tell.

    errors:  StoreUnavailable  no answer in time: ignore it
    source:  sql/deliveries/send_delivery_hint.sql
    """
    return bool(await session.rows("send_delivery_hint"))


async def send_signal_hint(session: Session) -> bool:
    """Tell engines that a client has sent signals. Not in the client's transaction: there it would hold up others.

    errors:  StoreUnavailable  no answer in time: ignore it
    source:  sql/deliveries/send_signal_hint.sql
    """
    return bool(await session.rows("send_signal_hint"))
