"""Decide whether and when a request is retried, without sending, sleeping or reading a clock."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from shardclock.api.errors import Problem
from shardclock.backoff import Backoff

PAUSES = Backoff(0.1, 5.0)  # the longest pause before each retry


@dataclass(frozen=True, slots=True)
class Patience:
    """The limits of the retries of one request.

    units:   `retry_for_s` counts from the first failure. `draw` returns a random number from 0 to 1; the random pauses
             (*full jitter*) spread the retries of many clients
    """

    retry_for_s: float
    is_repeatable: bool  # a repeated request has no further effect
    draw: Callable[[], float]


def pause_s_after(problem: Problem, patience: Patience, *, attempt: int, elapsed_s: float) -> float | None:
    """Return the pause before a request is sent again; `attempt` counts from 1.

    shape:   None: no retry, because the error is permanent, the request could take effect twice, or the time is over
    units:   seconds
    """
    if not problem.may_pass or (problem.may_be_done and not patience.is_repeatable):
        return None
    pause_s = patience.draw() * PAUSES.pause_s(attempt)
    if problem.retry_after_s is not None:
        pause_s += problem.retry_after_s
    return pause_s if elapsed_s + pause_s <= patience.retry_for_s else None


def retry_after_s_of(text: str | None, now: datetime) -> float | None:
    """Parse the header `Retry-After`: a number of seconds, or a moment.

    shape:   never negative; None: the header is missing, or its value is neither a number nor a moment
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
