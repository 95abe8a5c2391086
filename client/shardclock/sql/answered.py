"""Read what a statement has answered."""

import json

from shardclock.api.answers import Changed, Scheduled, TimerState
from shardclock.api.changes import UNKNOWN, Outcomes, no_timer
from shardclock.sql.asked import Which
from shardclock.sql.refusals import not_done


def scheduled_of(answer: str | None) -> Scheduled:
    """Read what became of a timer that was asked for."""
    assert answer is not None, "a call of a function gives one row"
    return Scheduled.model_validate_json(answer)


def timer_of(answer: str | None, which: Which) -> TimerState:
    """Read a timer that was looked for.

    errors:  NotFound  there is none
    """
    if answer is None:
        raise not_done(no_timer(which), UNKNOWN, is_there=False)
    return TimerState.model_validate_json(answer)


def changed_of(answer: str | None, which: Which, outcomes: Outcomes) -> Changed:
    """Read the state that a verb has left its timer in.

    errors:  NotFound  there is none
             TooLate   it is in another state than was asked for
    """
    assert answer is not None, "a call of a function gives one row"
    state: str = json.loads(answer)["state"]
    if state in outcomes.done:
        return Changed(timer_key=which.timer_key, name=which.name, state=state)
    if state == UNKNOWN:
        raise not_done(no_timer(which), state, is_there=False)
    raise not_done(outcomes.why_not(which, state), state, is_there=True)
