"""For how long a caller wants to wait: how a request says it, and how it is read."""

from typing import Annotated

from fastapi import Query

from shardclock_server.gateway.requests.asked import seconds_of
from shardclock_server.gateway.requests.problems import REFUSED, Problem
from shardclock_server.timers.refusal import shortened

WAIT_S_MAX = 300.0
WAIT_EXAMPLE = "PT30S"


def how_long(until: str) -> str:
    """Describe the parameter `wait`, which ends `until` something is so."""
    return f"for how long to wait until {until}, an ISO 8601 duration of at most PT{WAIT_S_MAX:.0f}S"


WaitForMore = Annotated[str | None, Query(description=how_long("there is something"), examples=[WAIT_EXAMPLE])]
WaitForTasks = Annotated[str | None, Query(description=how_long("there is a task"), examples=[WAIT_EXAMPLE])]
WaitForEnd = Annotated[str | None, Query(description=how_long("it has ended"), examples=[WAIT_EXAMPLE])]


def wait_s_of(text: str | None) -> float | None:
    """Read for how long a caller wants to wait; None: it does not.

    errors:  Problem  no duration, or more than five minutes
    """
    if text is None:
        return None
    wait_s = seconds_of("wait", text)
    if wait_s > WAIT_S_MAX:
        raise Problem(REFUSED, f"wait {shortened(text)} is refused: it must be at most PT{WAIT_S_MAX:.0f}S; ask again")
    return wait_s
