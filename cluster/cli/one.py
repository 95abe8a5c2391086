"""Doing one thing to one timer, and answering truthfully what became of it."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from cluster.cli.output import DONE, NOT_DONE, print_json, print_table, tell
from cluster.cli.store import with_session
from sql.session import Session
from sql.verbs import Which


@dataclass(frozen=True, slots=True)
class Answers:
    """Which states mean that it was done, in people's words, and what to say of others that ask for advice."""

    done: Mapping[str, str]
    advice: Mapping[str, str] = field(default_factory=dict)


def change_one(
    which: Which, change: Callable[[Session, Which], Awaitable[str]], answers: Answers, *, as_json: bool
) -> int:
    """Change a timer, and tell in which state that left it, or in which it was found."""

    async def do(session: Session) -> int:
        state = await change(session, which)
        if as_json:
            print_json({"state": state})
        elif state in answers.done:
            print_table("", ["timer", "state"], [(which, answers.done[state])])
        else:
            tell(f"shardclock: {_why_not(state, which, answers)}")
        return DONE if state in answers.done else NOT_DONE

    return with_session(do)


def no_timer(which: Which) -> str:
    """Say that there is no such timer."""
    return f"there is no timer {which}, pending or ended"


def _why_not(state: str, which: Which, answers: Answers) -> str:
    if state == "UNKNOWN":
        return no_timer(which)
    if state in answers.advice:
        return f"timer {which} {answers.advice[state]}"
    return f"too late: timer {which} is {state} already"
