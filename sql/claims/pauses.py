"""End the pauses whose end has come: their timers are pending again."""

from typing import NamedTuple

from shardclock_server.sql.session import Session


class EndedPauses(NamedTuple):
    """The number of pauses that a statement ended.

    units:   `next_s` is the time until the next pause ends; None: no other pause has an end
    """

    ended: int
    next_s: float | None


async def end_pauses(session: Session, *, most: int) -> EndedPauses:
    """Resume the paused timers whose end has come, at most `most`; timers with a locked row wait for the next call.

    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/functions/timers/end_pauses.sql
    """
    (row,) = await session.call("end_pauses", most=most)
    return EndedPauses(row["ended"], row["next_s"])
