"""Hints that a timer is due at once: sent by gateways, received by shards. A lost hint costs a poll."""

from shardclock_server.sql.session import Session

DUE = "shardclock_due"  # the channel that shards hear


async def send_due_hint(session: Session) -> bool:
    """Tell shards to claim now. Not in the transaction of the client that schedules: there it would hold up others.

    errors:  StoreUnavailable  no answer in time: ignore it
    source:  sql/claims/send_due_hint.sql
    """
    return bool(await session.rows("send_due_hint"))
