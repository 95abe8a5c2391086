"""Show what a schedule will do: its next occurrences on its zone's wall clock, with a note where the clock changes."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from timers.cron import Cron
from timers.occurrence import WITHOUT_END, Occurrence, Rule
from timers.offsets import clock_changes
from timers.repeat import Repeat
from timers.zone import UTC_ZONE, comes_twice, exists, offset_at, to_local

SECOND = timedelta(seconds=1)
GAP_MAX = timedelta(days=3_660)  # between two occurrences; in a longer one nobody looks what the clock has skipped


class Foreseen(NamedTuple):
    """Hold one future occurrence: its moment in UTC, its local time with offset, and a note about a clock change."""

    number: int
    moment: datetime
    local: str
    edge: str | None


def preview(rule: Rule, created: datetime, *, count: int) -> list[Foreseen]:
    """Find the first occurrences of a schedule made at `created`, with a note where a change of the clock matters.

    shape:   at most `count`, in order; fewer if the rule ends; a note compares with the occurrence before, the first
             note with `created`
    """
    if rule.repetitions != WITHOUT_END:
        count = min(count, rule.repetitions)
    foreseen: list[Foreseen] = []
    before = created
    occurrence = rule.first(created)
    while occurrence is not None and len(foreseen) < count:
        moment = occurrence.due_date
        edge = "; ".join(_edges(rule, before, occurrence)) or None
        foreseen.append(Foreseen(occurrence.number, moment, _shown(moment, rule.zone), edge))
        before = moment
        occurrence = rule.next(occurrence)
    return foreseen


def _edges(rule: Rule, before: datetime, occurrence: Occurrence) -> Iterator[str]:
    moment = occurrence.due_date
    try:
        local = to_local(moment, rule.zone)
        old, new = offset_at(before, rule.zone), offset_at(moment, rule.zone)
    except OverflowError:  # in the last hours of the year 9999 the wall clock would be past it
        return
    if old != new:
        yield f"clock {_offset(before, rule.zone)} → {_offset(moment, rule.zone)}"
    if isinstance(rule, Cron):
        yield from _skipped(rule, before, moment)
    if isinstance(rule, Repeat):
        yield from _moved(rule, occurrence)
    if comes_twice(local, rule.zone):
        yield f"{_text(local)} comes twice: {'second' if local.fold else 'first'} time round"


def _skipped(rule: Cron, before: datetime, moment: datetime) -> Iterator[str]:
    """Tell which local times match the rule, but were skipped by the clock."""
    if moment - before > GAP_MAX:
        return
    # UTC skips no local time, so there the rule matches all of them.
    everything = replace(rule, zone=UTC_ZONE)
    for change in clock_changes(rule.zone, before, moment):
        low, high = change.at + change.before - SECOND, change.at + change.after - SECOND
        first = everything.first(low)
        if first is not None and first.due_date <= high:
            more = everything.after(first, high).missed
            yield f"left out {_text(first.due_date)}{f' and {more} more' if more else ''}, which the clock skips"


def _moved(rule: Repeat, occurrence: Occurrence) -> Iterator[str]:
    """Tell which local time the rule means, if the clock skips it."""
    meant = rule.meant(occurrence)
    if not exists(meant, rule.zone):
        yield f"moved forward from {_text(meant)}, which the clock skips"


def _shown(moment: datetime, zone: ZoneInfo) -> str:
    try:
        return moment.astimezone(zone).isoformat()
    except OverflowError:
        return moment.isoformat()


def _offset(moment: datetime, zone: ZoneInfo) -> str:
    return moment.astimezone(zone).isoformat(timespec="microseconds").partition(".")[2][6:]


def _text(local: datetime) -> str:
    return local.replace(tzinfo=None).isoformat(sep=" ")
