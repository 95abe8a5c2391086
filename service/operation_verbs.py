"""Define the verbs of bulk operations; a verb changes one page of keys, with the operation's stored parameters."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from shardclock_server.service.redriving import change_letter_page
from shardclock_server.sql.clients.verbs import Shift, cancel_timers, pause_timers, resume_timers, shift_timers
from shardclock_server.sql.deliveries.dead_letters import discard_dead_letters, redrive_dead_letters
from shardclock_server.sql.session import Session
from shardclock_server.timers.schedule import MissedChoice

Change = Mapping[str, Any]

CANCEL, PAUSE, RESUME, RESCHEDULE = "cancel", "pause", "resume", "reschedule"
REDRIVE, DISCARD = "dead-letters redrive", "dead-letters discard"
# For each of these verbs, one statement finds and changes all rows.
RETRY, RESOLVE = "deliveries retry", "processes resolve"
OF_TIMERS = frozenset({CANCEL, PAUSE, RESUME, RESCHEDULE})


async def _cancel(session: Session, keys: Sequence[int], change: Change) -> Sequence[int]:
    return await cancel_timers(session, keys, reason=change.get("reason"))


async def _pause(session: Session, keys: Sequence[int], change: Change) -> Sequence[int]:
    until = change.get("until")
    return await pause_timers(
        session,
        keys,
        reason=change.get("reason"),
        until=until and datetime.fromisoformat(until),
        missed=change.get("missed", MissedChoice.POLICY),
    )


async def _resume(session: Session, keys: Sequence[int], change: Change) -> Sequence[int]:
    return await resume_timers(session, keys, missed=change.get("missed", MissedChoice.POLICY))


async def _shift(session: Session, keys: Sequence[int], change: Change) -> Sequence[int]:
    return await shift_timers(session, keys, Shift(change["shift"]), operation=change["operation"])


async def _redrive(session: Session, keys: Sequence[int], change: Change) -> Sequence[int]:
    return await change_letter_page(session, partial(redrive_dead_letters, session, keys, per_s=change.get("per_s")))


async def _discard(session: Session, keys: Sequence[int], change: Change) -> Sequence[int]:
    return await discard_dead_letters(session, keys, reason=change.get("reason"))


_PAGE: Mapping[str, Callable[[Session, Sequence[int], Change], Awaitable[Sequence[int]]]] = {
    CANCEL: _cancel,
    PAUSE: _pause,
    RESUME: _resume,
    RESCHEDULE: _shift,
    REDRIVE: _redrive,
    DISCARD: _discard,
}


async def change_keys(session: Session, verb: str, change: Change, keys: Sequence[int]) -> Sequence[int]:
    """Change one page of an operation; return the keys of the changed rows.

    errors:  Refusal           a parameter is refused: none of these rows was changed
             StatementRefused  as above
             StoreUnavailable  the outcome is unknown
    """
    return await _PAGE[verb](session, keys, change)


def pause_s_of(change: Change, rows: int) -> float:
    """Return the time to wait after a page: with a rate, the time until the last row of the page is due."""
    per_s = change.get("per_s")
    return rows / per_s if per_s else 0.0
