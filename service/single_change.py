"""Change one timer, and translate the returned state into a word or a refusal.

`shardclock.api.changes` defines the meaning of each state for each verb; the SQL client uses the same definitions.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime

from shardclock.api.changes import UNKNOWN, VerbOutcomes
from shardclock.api.codes import RefusalCode
from shardclock.api.refusals.timers import UNKNOWN_TIMER
from shardclock_server.service.next_due import next_due_of
from shardclock_server.sql.clients.history import read_upcoming
from shardclock_server.sql.clients.verbs import TimerRef
from shardclock_server.sql.session import Session
from shardclock_server.timers.refusal import Refusal


@dataclass(frozen=True, slots=True)
class ChangedTimer:
    """A changed timer: its state, a word for the change, and its due date if this kind of change can move due dates."""

    state: str
    word: str
    due_date: datetime | None = None


class NotChanged(Refusal):
    """A timer can't get the requested state; the problem's member `state` has the present state."""

    def __init__(self, code: RefusalCode, which: TimerRef, state: str) -> None:
        super().__init__(code.sentence(which=which, state=state), code=code, state=state)


class UnknownTimer(NotChanged):
    """No pending or ended timer has this key or name."""

    def __init__(self, which: TimerRef) -> None:
        super().__init__(UNKNOWN_TIMER, which, UNKNOWN)


async def change_one(
    session: Session, which: TimerRef, change: Callable[[Session, TimerRef], Awaitable[str]], outcomes: VerbOutcomes
) -> ChangedTimer:
    """Change a timer, and return its state after the change.

    errors:  UnknownTimer      there is no such timer
             NotChanged        the timer has ended, or its state does not allow the change
             StatementRefused  the timer belongs to an instance of a process, or has no date yet
             InvalidTimer      the change is refused
             StoreUnavailable  the outcome is unknown: the docstring of `change` says whether a repetition is safe
    """
    state = await change(session, which)
    if state in outcomes.done:
        due_date = await _due_date(session, which) if outcomes.shows_date else None
        return ChangedTimer(state, outcomes.done[state], due_date)
    raise NotChanged(outcomes.code_of(state), which, state)


async def _due_date(session: Session, which: TimerRef) -> datetime | None:
    """Read a timer's next due date; None: the timer fired or was cancelled in the meantime."""
    plan = await read_upcoming(session, which)
    return None if plan is None else next_due_of(plan, plan.due_date).next.due_date
