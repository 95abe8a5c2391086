"""The parameter `wait`: its description, and its parsing."""

from typing import Annotated

from fastapi import Query

from shardclock.api.codes import REFUSED
from shardclock_server.gateway.requests.problems import Problem
from shardclock_server.gateway.requests.shared_fields import seconds_of
from shardclock_server.timers.refusal import shortened

WAIT_S_MAX = 300.0
WAIT_EXAMPLE = "PT30S"


def how_long(until: str) -> str:
    """Describe the parameter `wait` of a route; `until` is the text of the condition for which the route waits."""
    return f"wait until {until}, for an ISO 8601 duration of at most PT{WAIT_S_MAX:.0f}S"


WaitForMore = Annotated[str | None, Query(description=how_long("there are records"), examples=[WAIT_EXAMPLE])]
WaitForTasks = Annotated[str | None, Query(description=how_long("there is a task"), examples=[WAIT_EXAMPLE])]
WaitForEnd = Annotated[str | None, Query(description=how_long("it has ended"), examples=[WAIT_EXAMPLE])]


def wait_s_of(text: str | None) -> float | None:
    """Parse the parameter `wait` to seconds; None: the caller does not wait.

    errors:  Problem  the text is not a duration, or the wait is longer than five minutes
    """
    if text is None:
        return None
    wait_s = seconds_of("wait", text)
    if wait_s > WAIT_S_MAX:
        raise Problem(REFUSED, f"wait {shortened(text)} is refused: it must be at most PT{WAIT_S_MAX:.0f}S; ask again")
    return wait_s
