"""Read schedules of every kind, and say what follows an occurrence when some were missed.

A schedule is the rule that makes one timer after another: an ISO 8601 repeat or cron. Both kinds keep to a grid, so
no delay in firing ever moves what comes after. What has piled up meanwhile is up to the timer's `missed`.
"""

from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from timers.cron import looks_like_cron, parse_cron
from timers.moment import canonical_moment
from timers.occurrence import WITHOUT_END, Occurrence, Rule
from timers.refusal import InvalidTimer, shortened
from timers.repeat import parse_repeat
from timers.zone import zone_of

# An occurrence that is later than this was missed; less is a takeover.
MISSED_AFTER = timedelta(seconds=60)


class Missed(StrEnum):
    """Name what becomes of occurrences that nobody fired in time."""

    FIRE_ONCE = "fire_once"
    FIRE_ALL = "fire_all"
    SKIP = "skip"


class Following(NamedTuple):
    """Tell what to make of an occurrence: whether it fires, how many are skipped, and the next, or None at the end.

    What doesn't fire is itself among the skipped.
    """

    fires: bool
    skipped: int
    next: Occurrence | None


# Every firing of a schedule reads its text again; a cluster has few distinct ones, and they are short.
@lru_cache(maxsize=4_096)
def parse_schedule(text: str, zone: str = "UTC") -> Rule:
    """Read an ISO 8601 repeat or a cron expression, on the wall clock of a zone.

    A zone that a repeat names in brackets is the schedule's, and then `zone` must be the same, or UTC.

    shape:   `str()` of it, with its zone, reads back to the same rule
    errors:  InvalidTimer  neither a repeat nor cron, or no such zone
    """
    beside = zone_of(zone)
    return parse_cron(text, beside) if looks_like_cron(text) else parse_repeat(text, beside)


def first_of(rule: Rule, created: datetime, *, number: int = 1) -> Occurrence:
    """Find the first occurrence of a schedule made at `created`.

    errors:  InvalidTimer  there is none
    """
    if occurrence := rule.first(created, number=number):
        return occurrence
    raise InvalidTimer(
        f"schedule {shortened(str(rule))} never occurs after {canonical_moment(created)};"
        " choose one with a date in the calendar, before its end and the year 10000"
    )


def following(
    rule: Rule, current: Occurrence, *, repetitions: int, now: datetime, missed: Missed = Missed.FIRE_ONCE
) -> Following:
    """Decide about the occurrence whose turn it is, and find the next one.

    fire_once: it fires, for all that are due by now; fire_all: it fires, and the next one comes, due or not;
    skip: if it is too late it is skipped, with all that are too late as well; else as fire_once.

    shape:   the next is due strictly after now, or is not too late to fire, or may be anything with fire_all; its
             number is at most `repetitions`
    units:   `current.due_date` is the row's, which a user may have moved off the grid; `repetitions` is the last
             occurrence's number, -1 without end; from the row too, since numbers go on when a rule is changed
    """
    if missed == Missed.FIRE_ALL:
        return Following(fires=True, skipped=0, next=_within(repetitions, rule.next(current)))
    fires = missed == Missed.FIRE_ONCE or now - current.due_date <= MISSED_AFTER
    skipped, after = rule.after(current, now if fires else now - MISSED_AFTER - datetime.resolution)
    if repetitions != WITHOUT_END:
        skipped = min(skipped, max(repetitions - current.number, 0))
    return Following(fires=fires, skipped=skipped + (not fires), next=_within(repetitions, after))


def _within(repetitions: int, occurrence: Occurrence | None) -> Occurrence | None:
    if occurrence and repetitions != WITHOUT_END and occurrence.number > repetitions:
        return None
    return occurrence
