"""Show what a schedule will do: its next occurrences on its zone's wall clock, with a note where the clock changes."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from shardclock_server.timers.cron import Cron
from shardclock_server.timers.cron_local import count_local, local_match
from shardclock_server.timers.occurrence import WITHOUT_END, Occurrence, Rule
from shardclock_server.timers.offsets import clock_changes, moment_of, second_of
from shardclock_server.timers.repeat import Repeat
from shardclock_server.timers.zone import comes_twice, exists, offset_at, to_local

GAP_MAX = timedelta(days=3_660)  # between two occurrences; in a longer one nobody looks what the clock has skipped


class Foreseen(NamedTuple):
    """Hold one future occurrence: its moment in UTC, its local time with offset, and a note about a clock change."""

    number: int
    moment: datetime
    local: str
    edge: str | None


def preview(rule: Rule, created: datetime, *, count: int) -> list[Foreseen]:
    """Find the first occurrences of a schedule made at `created`, with a note where a change of the clock matters.

    shape:   as of `foresee`
    """
    return list(foresee(rule, created, count=count))


def foresee(rule: Rule, created: datetime, *, count: int) -> Iterator[Foreseen]:
    """Find these occurrences one by one: each takes some milliseconds at most.

    shape:   at most `count`, in order; fewer if the rule ends; a note compares with the occurrence before, the first
             note with `created`
    """
    if rule.repetitions != WITHOUT_END:
        count = min(count, rule.repetitions)
    before = created
    occurrence = rule.first(created) if count else None
    for left in range(count, 0, -1):
        if occurrence is None:
            return
        moment = occurrence.due_date
        edge = "; ".join(_edges(rule, before, occurrence)) or None
        yield Foreseen(occurrence.number, moment, _shown(moment, rule.zone), edge)
        before = moment
        occurrence = rule.next(occurrence) if left > 1 else None


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
    for change in clock_changes(rule.zone, before, moment):
        low, high = second_of(change.at + change.before), second_of(change.at + change.after)
        first = local_match(rule.fields, low)
        if first < high:
            more = count_local(rule.fields, low, high) - 1
            yield f"left out {_text(moment_of(first))}{f' and {more} more' if more else ''}, which the clock skips"


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
