"""Read schedules of every kind, and say what follows an occurrence when some were missed.

A schedule is the rule that makes one timer after another: an ISO 8601 repeat or cron. Both kinds keep to a grid, so
a late firing never moves the occurrences after it. The timer's `missed` policy decides about occurrences that were
missed.
"""

from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from shardclock_server.timers.cron import looks_like_cron, parse_cron
from shardclock_server.timers.moment import canonical_moment
from shardclock_server.timers.occurrence import WITHOUT_END, Occurrence, Rule
from shardclock_server.timers.refusal import InvalidTimer, shortened
from shardclock_server.timers.repeat import REPETITIONS_MAX, parse_repeat
from shardclock_server.timers.zone import zone_of

# An occurrence that is later than this was missed; a smaller delay may be a takeover.
MISSED_AFTER = timedelta(seconds=60)


class Missed(StrEnum):
    """Name what happens to occurrences that were not fired in time."""

    FIRE_ONCE = "fire_once"
    FIRE_ALL = "fire_all"
    SKIP = "skip"


class Following(NamedTuple):
    """Tell whether an occurrence fires, how many are skipped, and which one is next, None at the end.

    An occurrence that doesn't fire is one of the skipped.
    """

    fires: bool
    skipped: int
    next: Occurrence | None


# Every firing of a schedule reads its text again; a cluster has few distinct texts, and they are short.
@lru_cache(maxsize=4_096)
def parse_schedule(text: str, zone: str = "UTC") -> Rule:
    """Read an ISO 8601 repeat or a cron expression, on the wall clock of a zone.

    A zone that a repeat names in brackets is the schedule's zone; `zone` must then be the same, or UTC.

    shape:   `str()` of the rule, with its zone, reads back to the same rule
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
    """Decide what happens to the current occurrence, and find the next one.

    fire_once: it fires once, for all occurrences that are due by now. fire_all: it fires, and the next occurrence
    follows, due or not. skip: if it is too late, it is skipped with all others that are too late; else as fire_once.

    Rn counts firings, as in Camunda 8. A skipped occurrence is not a firing, so it moves the last number on.

    shape:   the next is due strictly after now (fire_once), is not too late to fire (skip), or is any (fire_all); its
             number is at most `last_number(repetitions, skipped)`
    units:   `current.due_date` is the row's, which a user may have moved off the grid; `repetitions` is the number of
             the last occurrence, -1 without end; it is the row's too, because numbers continue when a rule changes
    """
    if missed == Missed.FIRE_ALL:
        return Following(fires=True, skipped=0, next=_within(repetitions, rule.next(current)))
    fires = missed == Missed.FIRE_ONCE or now - current.due_date <= MISSED_AFTER
    if fires and repetitions != WITHOUT_END and current.number >= repetitions:
        return Following(fires=True, skipped=0, next=None)
    skipped, after = rule.after(current, now if fires else now - MISSED_AFTER - datetime.resolution)
    skipped += not fires
    return Following(fires, skipped, next=_within(last_number(repetitions, skipped), after))


def last_number(repetitions: int, skipped: int) -> int:
    """Increase the last occurrence's number by the number of skipped ones; -1 without end.

    source:  sql/claims/fire_due.sql does the same to the row
    """
    return WITHOUT_END if repetitions == WITHOUT_END else min(repetitions + skipped, REPETITIONS_MAX)


def _within(last: int, occurrence: Occurrence | None) -> Occurrence | None:
    if occurrence and last != WITHOUT_END and occurrence.number > last:
        return None
    return occurrence
