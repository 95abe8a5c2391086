"""The limits of a handler's calls: attempts, timeouts and concurrency; this module has the bounds of each number."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

from shardclock.durations import seconds_of
from shardclock.refusal import InvalidHandler, shown

ReadT = TypeVar("ReadT")
BoundT = TypeVar("BoundT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The limits that a worker enforces for a handler's calls; None means that the handler sets no limit.

    units:   `timeout_s` is for one attempt. `give_up_after_s` counts from the firing, `expires_after_s` from the due
             date. `rate_per_s` is the number of calls in a second. `priority` 1 is the highest, 4 the lowest
    errors:  InvalidHandler  two of the numbers contradict each other
    """

    max_attempts: int
    timeout_s: float
    retry_min_s: float
    retry_max_s: float
    give_up_after_s: float | None
    expires_after_s: float | None
    concurrency: int | None
    rate_per_s: float | None
    batch: int
    priority: int
    num_cpus: float | None
    memory_mib: int | None

    def __post_init__(self) -> None:
        """Refuse numbers that contradict each other."""
        if self.retry_min_s > self.retry_max_s:
            raise InvalidHandler(
                f"retry_min ({self.retry_min_s:g} s) is longer than retry_max ({self.retry_max_s:g} s); a retry waits"
                " from retry_min to retry_max, so lower retry_min or raise retry_max"
            )
        if self.max_attempts > 1 and self.give_up_after_s is not None and self.give_up_after_s < self.retry_min_s:
            raise InvalidHandler(
                f"give_up_after ({self.give_up_after_s:g} s) is shorter than retry_min ({self.retry_min_s:g} s), so no"
                " second attempt would ever come; raise give_up_after, or set max_attempts=1"
            )
        if self.max_attempts > 1 and self.give_up_after_s is not None and self.give_up_after_s < self.timeout_s:
            raise InvalidHandler(
                f"give_up_after ({self.give_up_after_s:g} s) is shorter than timeout ({self.timeout_s:g} s), so an"
                " attempt that takes too long would be the last; raise give_up_after, lower timeout, or"
                " set max_attempts=1"
            )
        given_up_s = math.inf if self.give_up_after_s is None else self.give_up_after_s
        if self.expires_after_s is not None and self.expires_after_s > given_up_s:
            raise InvalidHandler(
                f"expires_after ({self.expires_after_s:g} s) is longer than give_up_after ({given_up_s:g} s),"
                " so a delivery would be given up before it expires; lower expires_after, or raise give_up_after"
            )


def whole(name: str, value: object, least: int, most: int) -> int:
    """Check a whole number against its bounds.

    errors:  InvalidHandler  the value is no whole number, or is out of bounds
    """
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
        return value
    raise InvalidHandler(f"{name} {shown(value)} is refused: it must be a whole number from {least} to {most:,}")


def number(name: str, value: object, least: float, most: float) -> float:
    """Check a number, which may have a fraction, against its bounds.

    errors:  InvalidHandler  the value is no number, or is out of bounds
    """
    if isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most:
        assert math.isfinite(value), "within finite bounds"
        return float(value)
    raise InvalidHandler(f"{name} {shown(value)} is refused: it must be a number from {least:g} to {most:,g}")


def length(name: str, value: str | timedelta, least: str, most: str) -> float:
    """Parse a duration, and check it against its bounds.

    units:   seconds; the bounds are ISO 8601 durations, as users write them
    errors:  InvalidHandler  the value is no duration, or is out of bounds
    """
    try:
        length_s = seconds_of(value)
    except ValueError as refusal:
        raise InvalidHandler(f"{name} {refusal}") from None
    if seconds_of(least) <= length_s <= seconds_of(most):
        return length_s
    raise InvalidHandler(f"{name} {shown(value)} is refused: it must be a duration from {least} to {most}")


def given(
    read: Callable[[str, Any, BoundT, BoundT], ReadT], name: str, value: object, least: BoundT, most: BoundT
) -> ReadT | None:
    """Check a value unless it is None."""
    return None if value is None else read(name, value, least, most)
