"""Parse schedules of all kinds, and find the next occurrence, even after late firings.

A schedule has a rule that creates one timer after another: an ISO 8601 repeat or a cron expression. Both kinds of rules
compute occurrences from fixed grid points, so a late firing never moves later occurrences. The timer's `missed` policy
decides about missed occurrences.
"""

from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from shardclock.api.codes import invalid
from shardclock_server.timers.cron import looks_like_cron, parse_cron
from shardclock_server.timers.moment import canonical_moment
from shardclock_server.timers.occurrence import WITHOUT_END, ScheduledOccurrence, ScheduleRule
from shardclock_server.timers.refusal import InvalidTimer, shortened, unknown
from shardclock_server.timers.repeat import REPETITIONS_MAX, parse_repeat
from shardclock_server.timers.zone import zone_of

# An occurrence counts as missed if it is late by more than this time. A takeover causes a shorter delay.
MISSED_AFTER = timedelta(seconds=60)


class Missed(StrEnum):
    """The policy of a schedule for occurrences that did not fire in time."""

    FIRE_ONCE = "fire_once"
    FIRE_ALL = "fire_all"
    SKIP = "skip"


class MissedChoice(StrEnum):
    """How a resume treats the occurrences that were missed during the pause."""

    POLICY = "policy"
    SKIP = "skip"
    FIRE_ONCE = "fire_once"
    FIRE_ALL = "fire_all"


class Following(NamedTuple):
    """The decision about an occurrence: whether it fires, the number of skipped occurrences, and the next occurrence.

    `skipped` includes the current occurrence if it does not fire.
    """

    fires: bool
    skipped: int
    next: ScheduledOccurrence | None


# The results are cached, because each firing of a schedule parses its text, and a cluster has few different texts.
@lru_cache(maxsize=4_096)
def parse_schedule(text: str, zone: str = "UTC") -> ScheduleRule:
    """Parse an ISO 8601 repeat or a cron expression, for the wall clock of a zone.

    If a repeat has a zone in brackets, this is the schedule's zone; then `zone` must be the same zone or UTC.

    shape:   the text `str(rule)`, parsed with the rule's zone, gives the same rule
    errors:  InvalidTimer  the text is neither a repeat nor cron, or the zone does not exist
    """
    default_zone = zone_of(zone)
    return parse_cron(text, default_zone) if looks_like_cron(text) else parse_repeat(text, default_zone)


def missed_choice_of(text: str | None, *, called: str = "missed") -> MissedChoice:
    """Parse a resume's choice for missed occurrences; None: the schedule's policy.

    errors:  InvalidTimer  the choice is unknown
    """
    if text is None:
        return MissedChoice.POLICY
    if text not in set(MissedChoice):
        raise InvalidTimer(f"{called} {unknown(text, MissedChoice)}", code=invalid("missed"))
    return MissedChoice(text)


def first_of(rule: ScheduleRule, created: datetime, *, number: int = 1) -> ScheduledOccurrence:
    """Find the first occurrence of a schedule that was created at `created`.

    errors:  InvalidTimer  the schedule never occurs after `created`
    """
    if occurrence := rule.first(created, number=number):
        return occurrence
    raise InvalidTimer.of(
        invalid("schedule"),
        why=f"{shortened(str(rule))} never occurs after {canonical_moment(created)};"
        " choose one with a date in the calendar, before its end and the year 10000",
    )


def following(
    rule: ScheduleRule,
    current: ScheduledOccurrence,
    *,
    repetitions: int,
    now: datetime,
    missed: Missed = Missed.FIRE_ONCE,
    missed_before: datetime | None = None,
) -> Following:
    """Decide whether the current occurrence fires, and find the next occurrence.

    fire_once  the current occurrence fires once, for all occurrences that are due by now
    fire_all   the current occurrence fires, and the next occurrence is the next grid point, even if it is already due
    skip       all occurrences that are late by more than MISSED_AFTER are skipped; if the current occurrence is less
               late, fire_once applies

    With `missed_before`, the moment of a resume, the policy is the resume's choice. The choice applies to all
    occurrences before `missed_before`, including the current occurrence: `fire_once` fires once for all of them, and
    `skip` skips all of them. The next occurrence is due at `missed_before` or later; it may be before now.

    Rn counts firings, as in Camunda 8. A skipped occurrence is not a firing, so it increases the number of the last
    occurrence by one.

    shape:   the next occurrence is due strictly after now (fire_once), is at most MISSED_AFTER late (skip), or has any
             date (fire_all); its number is at most `last_number(repetitions, skipped)`
    units:   `current.due_date` and `repetitions` come from the row. A user may have moved the due date off the grid.
             `repetitions` is the number of the last occurrence; -1: no end. The numbers continue when a rule changes
    """
    if missed == Missed.FIRE_ALL:
        return Following(fires=True, skipped=0, next=_within(repetitions, rule.next(current)))
    fires = missed == Missed.FIRE_ONCE or (missed_before is None and now - current.due_date <= MISSED_AFTER)
    if fires and repetitions != WITHOUT_END and current.number >= repetitions:
        return Following(fires=True, skipped=0, next=None)
    if missed_before is not None:
        until = missed_before - datetime.resolution
    else:
        until = now if fires else now - MISSED_AFTER - datetime.resolution
    skipped, after = rule.after(current, until)
    skipped += not fires
    return Following(fires, skipped, next=_within(last_number(repetitions, skipped), after))


def last_number(repetitions: int, skipped: int) -> int:
    """Increase the number of the last occurrence by the number of skipped occurrences; -1: no end.

    source:  sql/included/recur.sql computes the same number
    """
    return WITHOUT_END if repetitions == WITHOUT_END else min(repetitions + skipped, REPETITIONS_MAX)


def _within(last: int, occurrence: ScheduledOccurrence | None) -> ScheduledOccurrence | None:
    if occurrence and last != WITHOUT_END and occurrence.number > last:
        return None
    return occurrence
