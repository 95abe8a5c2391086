"""A change of one timer, with a true answer about its outcome."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from cli.output import DONE, NOT_DONE, print_json, print_table, tell
from cli.session import with_session
from service.outlook import outlook_of
from sql.clients.history import read_upcoming
from sql.clients.verbs import TimerRef
from sql.session import Session


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What is printed for each state in which a change leaves its timer.

    `done` has the states that mean success, each with the word to print. `advice` has other states, each with what the
    user can do. With `shows_date`, for changes that move a timer, its new due date is printed, too.
    """

    done: Mapping[str, str]
    advice: Mapping[str, str] = field(default_factory=dict)
    shows_date: bool = False


def change_one(
    which: TimerRef, change: Callable[[Session, TimerRef], Awaitable[str]], outcomes: Outcomes, *, as_json: bool
) -> int:
    """Change a timer, and print the state that it has now."""

    async def do(session: Session) -> int:
        state = await change(session, which)
        is_dated = outcomes.shows_date and state in outcomes.done
        due = await _due_date(session, which) if is_dated else None
        if as_json:
            print_json({"state": state} | ({"due_date": due} if is_dated else {}))
        elif is_dated:
            print_table("", ["timer", "state", "due"], [(which, outcomes.done[state], due)])
        elif state in outcomes.done:
            print_table("", ["timer", "state"], [(which, outcomes.done[state])])
        else:
            tell(f"shardclock: {_why_not(state, which, outcomes)}")
        return DONE if state in outcomes.done else NOT_DONE

    return with_session(do)


async def _due_date(session: Session, which: TimerRef) -> datetime | None:
    """Read when a timer is due next; None if it has been fired or cancelled in the meantime."""
    plan = await read_upcoming(session, which)
    return None if plan is None else outlook_of(plan, plan.due_date).next.due_date


def no_timer(which: TimerRef) -> str:
    """Say that there is no such timer."""
    return f"there is no timer {which}, pending or ended"


def _why_not(state: str, which: TimerRef, outcomes: Outcomes) -> str:
    if state == "UNKNOWN":
        return no_timer(which)
    if state in outcomes.advice:
        return f"timer {which} {outcomes.advice[state]}"
    return f"too late: timer {which} is {state} already"
