"""Change one timer: ask for it, and say what the state that is answered means.

What each state means to a verb stands in `shardclock.api.changes`: the client over SQL says the same.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime

from shardclock.api.changes import UNKNOWN, Outcomes, no_timer
from shardclock_server.service.outlook import outlook_of
from shardclock_server.sql.clients.history import read_upcoming
from shardclock_server.sql.clients.verbs import TimerRef
from shardclock_server.sql.session import Session, StatementRefused

WRONG_STATE = "55000"  # with which the functions refuse what the timer's present state does not allow


@dataclass(frozen=True, slots=True)
class Changed:
    """A timer was changed as it was asked for: its state, the word for it, and its due date if that may be new."""

    state: str
    word: str
    due_date: datetime | None = None


class NotChanged(Exception):
    """A timer is not in a state that was asked for; the message says why, `state` is the state that it has."""

    def __init__(self, message: str, state: str) -> None:
        super().__init__(message)
        self.state = state


class TimerConflict(StatementRefused):
    """An instance waits for a timer, or no date is planned for it yet; the message says what to do instead."""


class UnknownTimer(NotChanged):
    """There is no such timer, pending or ended."""

    def __init__(self, which: TimerRef) -> None:
        super().__init__(no_timer(which), UNKNOWN)


async def change_one(
    session: Session, which: TimerRef, change: Callable[[Session, TimerRef], Awaitable[str]], outcomes: Outcomes
) -> Changed:
    """Change a timer, and say which state it has now.

    errors:  UnknownTimer      there is none
             NotChanged        it has ended, or has a state in which it can't be changed so
             TimerConflict     it belongs to an instance of a process, or has no date yet
             InvalidTimer      the change is refused
             StoreUnavailable  the outcome is unknown: each verb says whether it may be sent again
    """
    try:
        state = await change(session, which)
    except StatementRefused as error:
        if error.sqlstate != WRONG_STATE:
            raise
        raise TimerConflict(str(error), sqlstate=error.sqlstate) from None
    if state in outcomes.done:
        due_date = await _due_date(session, which) if outcomes.shows_date else None
        return Changed(state, outcomes.done[state], due_date)
    if state == UNKNOWN:
        raise UnknownTimer(which)
    raise NotChanged(outcomes.why_not(which, state), state)


async def _due_date(session: Session, which: TimerRef) -> datetime | None:
    """Read when a timer is due next; None if it has been fired or cancelled in the meantime."""
    plan = await read_upcoming(session, which)
    return None if plan is None else outlook_of(plan, plan.due_date).next.due_date
