"""Hints that there are new deliveries: sent by shards, received by workers. A lost hint costs a poll."""

from sql.session import Session

DELIVERIES = "shardclock_deliveries"  # the channel
JOBS = "jobs"  # what a hint says if a start of a job is among them


async def send_delivery_hint(session: Session) -> bool:
    """Tell workers to look for deliveries; False if there are no targets but the log.

    errors:  StoreUnavailable  no answer in time: ignore it
    source:  sql/deliveries/send_delivery_hint.sql
    """
    return bool(await session.rows("send_delivery_hint"))
