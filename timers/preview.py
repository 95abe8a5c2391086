"""List a schedule's next occurrences on its zone's wall clock, with a note where the clock changes."""

from bisect import bisect_left
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from shardclock_server.timers.cron import Cron
from shardclock_server.timers.cron_local import count_local, local_match
from shardclock_server.timers.occurrence import WITHOUT_END, ScheduledOccurrence, ScheduleRule
from shardclock_server.timers.offsets import clock_changes, moment_of, second_of
from shardclock_server.timers.repeat import Repeat
from shardclock_server.timers.zone import comes_twice, exists, offset_at, to_local

SECOND = timedelta(seconds=1)
GAP_MAX = timedelta(days=3_660)  # longer gaps between occurrences are not searched for skipped local times


class PreviewedOccurrence(NamedTuple):
    """One future occurrence: its moment in UTC, its local time with offset, and a note about a clock change."""

    number: int
    moment: datetime
    local: str
    edge: str | None


def preview(rule: ScheduleRule, created: datetime, *, count: int) -> list[PreviewedOccurrence]:
    """List the occurrences of `iterate_preview`."""
    return list(iterate_preview(rule, created, count=count))


def iterate_preview(rule: ScheduleRule, created: datetime, *, count: int) -> Iterator[PreviewedOccurrence]:
    """Find the first occurrences of a schedule that was created at `created`; notes explain effects of clock changes.

    The result is an iterator, so that the caller can yield to its event loop between occurrences; each occurrence takes
    at most a few milliseconds.

    shape:   at most `count` occurrences, in order; fewer if the rule ends; a note compares an occurrence with the
             previous occurrence of the rule
    """
    if rule.repetitions != WITHOUT_END:
        count = min(count, rule.repetitions)
    if count:
        yield from preview_from(rule, rule.first(created), since=created, count=count)


def preview_from(
    rule: ScheduleRule, occurrence: ScheduledOccurrence | None, *, since: datetime, count: int
) -> Iterator[PreviewedOccurrence]:
    """List an occurrence and its successors; ignore the limit of the rule's repetitions.

    shape:   at most `count` occurrences, in order; a note compares an occurrence with the previous occurrence of the
             rule, and lists skipped local times since that occurrence, or since `since`
    """
    before, compared = since, occurrence and _before_first(rule, occurrence)
    for left in range(count, 0, -1):
        if occurrence is None:
            return
        moment = occurrence.due_date
        edge = "; ".join(_edges(rule, before, occurrence, compared or before)) or None
        yield PreviewedOccurrence(occurrence.number, moment, _shown(moment, rule.zone), edge)
        before = compared = moment
        occurrence = rule.next(occurrence) if left > 1 else None


def _before_first(rule: ScheduleRule, first: ScheduledOccurrence) -> datetime:
    """Return a moment with the UTC offset of the rule's date before `first`, for the note at `first`.

    The present moment can't replace it. For example, all dates of a yearly rule may have the offset of winter. In
    summer, a comparison with the present moment would report a change of the clock at each date.

    shape:   the first date itself if the rule has no earlier date, or none within `GAP_MAX`
    """
    if isinstance(rule, Repeat):
        return rule.before(first) or first.due_date
    try:
        earliest = first.due_date - GAP_MAX
    except OverflowError:  # before the year 1
        return first.due_date

    def has_date_after(moment: datetime) -> bool:
        found = rule.first(moment)
        return found is not None and found.due_date < first.due_date

    if not has_date_after(earliest):
        return first.due_date
    ends = [change.at - SECOND for change in clock_changes(rule.zone, earliest, first.due_date)]
    # `ends` are the last seconds before the changes of the clock. Find the first of these seconds with no date of the
    # rule between it and `first`. The previous date lies between this second and the change before it, so both have the
    # same offset.
    index = bisect_left(ends, True, key=lambda end: not has_date_after(end))
    return ends[index] if index < len(ends) else first.due_date


def _edges(rule: ScheduleRule, before: datetime, occurrence: ScheduledOccurrence, compared: datetime) -> Iterator[str]:
    moment = occurrence.due_date
    try:
        local = to_local(moment, rule.zone)
        old, new = offset_at(compared, rule.zone), offset_at(moment, rule.zone)
    except OverflowError:  # in the last hours of the year 9999, because a wall clock may then show the year 10000
        return
    if old != new:
        yield f"clock {_offset(compared, rule.zone)} → {_offset(moment, rule.zone)}"
    if isinstance(rule, Cron):
        yield from _skipped(rule, before, moment)
    if isinstance(rule, Repeat):
        yield from _moved(rule, occurrence)
    if comes_twice(local, rule.zone):
        yield f"{_text(local)} comes twice: {'second' if local.fold else 'first'} time round"


def _skipped(rule: Cron, before: datetime, moment: datetime) -> Iterator[str]:
    """Return a note about the local times that the clock skips although they match the rule."""
    if moment - before > GAP_MAX:
        return
    for change in clock_changes(rule.zone, before, moment):
        low, high = second_of(change.at + change.before), second_of(change.at + change.after)
        first = local_match(rule.fields, low)
        if first < high:
            more = count_local(rule.fields, low, high) - 1
            yield f"left out {_text(moment_of(first))}{f' and {more} more' if more else ''}, which the clock skips"


def _moved(rule: Repeat, occurrence: ScheduledOccurrence) -> Iterator[str]:
    """Return a note if the clock skips the local time of the rule's grid."""
    grid_time = rule.grid_time(occurrence)
    if not exists(grid_time, rule.zone):
        yield f"moved forward from {_text(grid_time)}, which the clock skips"


def _shown(moment: datetime, zone: ZoneInfo) -> str:
    try:
        return moment.astimezone(zone).isoformat()
    except OverflowError:
        return moment.isoformat()


def _offset(moment: datetime, zone: ZoneInfo) -> str:
    return moment.astimezone(zone).isoformat(timespec="microseconds").partition(".")[2][6:]


def _text(local: datetime) -> str:
    return local.replace(tzinfo=None).isoformat(sep=" ")
