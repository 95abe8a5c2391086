"""Hints that the log has new records: sent by shards, received by consumers that wait. A lost hint costs a poll."""

from shardclock_server.sql.session import Session


async def send_hint(session: Session) -> bool:
    """Tell waiting consumers to read the log; False if there is no group.

    errors:  StoreUnavailable  no answer in time: ignore it
    source:  sql/log/send_hint.sql
    """
    return bool(await session.rows("send_hint"))
