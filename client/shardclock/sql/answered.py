"""Parse the answers of statements."""

import json

from shardclock.api.answers import Changed, Scheduled, TimerState
from shardclock.api.changes import UNKNOWN, VerbOutcomes
from shardclock.api.refusals.timers import UNKNOWN_TIMER
from shardclock.sql.arguments import TimerReference
from shardclock.sql.refusals import refusal


def scheduled_of(answer: str | None) -> Scheduled:
    """Parse the outcome of a new timer."""
    assert answer is not None, "a call of a function gives one row"
    return Scheduled.model_validate_json(answer)


def timer_of(answer: str | None, which: TimerReference) -> TimerState:
    """Parse a timer.

    errors:  NotFound  the tenant has no timer with this key or name
    """
    if answer is None:
        raise refusal(UNKNOWN_TIMER, UNKNOWN_TIMER.sentence(which=which), state=UNKNOWN)
    return TimerState.model_validate_json(answer)


def changed_of(answer: str | None, which: TimerReference, outcomes: VerbOutcomes) -> Changed:
    """Parse the state of a timer after a verb.

    errors:  NotFound  the tenant has no timer with this key or name.
             TooLate   the timer's state does not allow the verb.
    """
    assert answer is not None, "a call of a function gives one row"
    state: str = json.loads(answer)["state"]
    if state in outcomes.done:
        return Changed(timer_key=which.timer_key, name=which.name, state=state)
    code = outcomes.code_of(state)
    raise refusal(code, code.sentence(which=which, state=state), state=state)
