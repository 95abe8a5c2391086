"""Say when a schedule's next occurrence is due, however many were missed, without counting them one by one.

A schedule is the rule that makes one timer after another. Occurrence k of it is due at anchor + k·period,
counted from 1, so that no delay in firing ever moves the grid.
"""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from timers.duration import DURATION_CHARS_MAX, Duration, parse_duration
from timers.moment import LATEST_DUE_DATE
from timers.refusal import InvalidTimer, shortened

WITHOUT_END = -1
REPETITIONS_MAX = 2_147_483_647
SCHEDULE_CHARS_MAX = DURATION_CHARS_MAX + 16
REPEAT = re.compile(r"R(?P<count>-?[0-9]+)?/(?P<interval>.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Repeat:
    """Hold an ISO 8601 repeat of fixed length: how many times (-1 is without end), and how far apart."""

    repetitions: int
    period: timedelta


# Cron will join this as a second kind of schedule.
Schedule: TypeAlias = Repeat


class Occurrence(NamedTuple):
    """Name one occurrence of a schedule and its due date."""

    number: int
    due_date: datetime


class Following(NamedTuple):
    """Tell what comes after an occurrence: how many were missed, and the next one, or None at the end."""

    skipped: int
    next: Occurrence | None


# Every firing of a schedule reads its text again; a cluster has few distinct ones, of 116 characters at most.
@lru_cache(maxsize=4_096)
def parse_schedule(text: str) -> Repeat:
    """Read a repeat: Rn/… fires n times, R0/… once, R/… and R-1/… without end.

    units:   days are 24 hours, since the zone is UTC
    errors:  InvalidTimer  not a repeat, a count or period out of bounds, or a form not understood yet
    """
    repetitions, interval = _read(text)
    return Repeat(repetitions, period=timedelta(days=interval.days) + interval.elapsed)


@lru_cache(maxsize=4_096)
def canonical_schedule(text: str) -> str:
    """Write a schedule as it is stored: P1D and PT24H stay apart, for they will differ once there are zones.

    errors:  InvalidTimer  as `parse_schedule`
    """
    repetitions, interval = _read(text)
    return f"R{'' if repetitions == WITHOUT_END else repetitions}/{interval}"


def following(schedule: Schedule, *, anchor: datetime, occurrence: int, now: datetime) -> Following:
    """Find what follows the occurrence that fires now: the first due strictly after now (`fire_once`).

    shape:   `skipped` counts the occurrences after this one that are due by now and will never fire; `next`
             is None when the repetitions are used up or the due date would pass the year 9999
    units:   `anchor` and `now` are aware and in UTC; arithmetic is in whole microseconds
    """
    missed_up_to = max((now - anchor) // schedule.period, occurrence)
    if schedule.repetitions != WITHOUT_END and missed_up_to >= schedule.repetitions:
        return Following(skipped=max(schedule.repetitions - occurrence, 0), next=None)
    return Following(skipped=missed_up_to - occurrence, next=_occurrence(schedule, missed_up_to + 1, anchor))


def _occurrence(schedule: Schedule, number: int, anchor: datetime) -> Occurrence | None:
    try:
        due_date = anchor + number * schedule.period
    except OverflowError:
        return None
    return Occurrence(number, due_date) if due_date <= LATEST_DUE_DATE else None


def _read(text: str) -> tuple[int, Duration]:
    match = REPEAT.fullmatch(text) if len(text) <= SCHEDULE_CHARS_MAX else None
    if match is None:
        raise InvalidTimer(f"{shortened(text)} is not an ISO 8601 repeat; write R/PT1H, or R3/PT1H for three times")
    return _repetitions(text, match["count"]), _interval(text, match["interval"])


def _repetitions(text: str, count: str | None) -> int:
    if count is None or count == "-1":
        return WITHOUT_END
    repetitions = int(count)
    if count.startswith("-") or repetitions > REPETITIONS_MAX:
        raise InvalidTimer(
            f"{shortened(text)} has the count {shortened(repetitions)};"
            f" write R0 to R{REPETITIONS_MAX}, or R without end"
        )
    return max(repetitions, 1)


def _interval(text: str, interval: str) -> Duration:
    if "/" in interval:
        raise InvalidTimer(
            f"{shortened(text)} has a start or an end, which is not understood yet; write it without, like R/PT1H"
        )
    try:
        duration = parse_duration(interval)
    except InvalidTimer as refusal:
        raise InvalidTimer(f"{shortened(text)} has no valid period: {refusal}") from None
    if duration.months:
        raise InvalidTimer(
            f"{shortened(text)} repeats by years or months, which is not understood yet;"
            " write a fixed length in weeks, days, hours, minutes and seconds, such as R/P30D"
        )
    if not duration.days and not duration.elapsed:
        raise InvalidTimer(f"{shortened(text)} has a period of zero; write one longer than zero, such as PT1S")
    return duration
