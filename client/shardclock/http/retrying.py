"""Decide whether a request is sent again, and when; nothing here sends, sleeps or looks at a clock."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from shardclock.api.errors import Problem

PAUSE_S = 0.1  # the first pause at most; each further one at most twice as long
PAUSE_S_MAX = 5.0
DOUBLINGS_MAX = 16  # more would only make larger numbers


@dataclass(frozen=True, slots=True)
class Patience:
    """Hold what bounds the retries of one request.

    units:   `retry_for_s` counts from the first failure. `draw` gives a number from 0 to 1 by chance: *full jitter*
             spreads the clients of a gateway that comes back
    """

    retry_for_s: float
    is_repeatable: bool  # however often it is sent, it has its effect once
    draw: Callable[[], float]


def pause_s_after(problem: Problem, patience: Patience, *, attempt: int, elapsed_s: float) -> float | None:
    """Say how long to wait before a request is sent again; `attempt` counts from 1.

    shape:   None: give up. It can't pass, it might be done twice, or the time is over
    units:   seconds
    """
    if not problem.may_pass or (problem.may_be_done and not patience.is_repeatable):
        return None
    pause_s = patience.draw() * min(PAUSE_S_MAX, PAUSE_S * 2.0 ** min(attempt - 1, DOUBLINGS_MAX))
    if problem.retry_after_s is not None:
        pause_s += problem.retry_after_s
    return pause_s if elapsed_s + pause_s <= patience.retry_for_s else None


def retry_after_s_of(text: str | None, now: datetime) -> float | None:
    """Read the header `Retry-After`: a number of seconds, or a moment.

    shape:   None: there is none, or it is neither; never negative
    """
    if text is None:
        return None
    if text.isascii() and text.isdecimal():
        return float(text[:9])
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (aware - now).total_seconds())
