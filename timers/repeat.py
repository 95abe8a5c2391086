"""Compute the due dates of an ISO 8601 repeat by arithmetic, without visiting each occurrence.

Occurrence k is due at the anchor + k·period. Each grid point is computed directly from the start, so late firings and
short months don't move the grid. If the clock skips the local time of the start, the first occurrence moves forward;
later occurrences are computed from the start's local time.
"""

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from shardclock_server.timers.duration import Duration, add_duration, looks_like_duration, parse_duration
from shardclock_server.timers.moment import LATEST_DUE_DATE, ParsedMoment, canonical_moment, parse_written
from shardclock_server.timers.occurrence import WITHOUT_END, CatchUp, ScheduledOccurrence
from shardclock_server.timers.refusal import InvalidTimer, shortened
from shardclock_server.timers.zone import UTC_ZONE, agreed_zone, check_brackets, to_local

REPETITIONS_MAX = 2_147_483_647
REPEAT_CHARS_MAX = 200  # The table's CHECK has the same limit.
# A zone's name in brackets contains slashes, which do not separate the parts of a repeat.
PART = r"(?:[^/\[\]]|\[[^\[\]]*\])*"
REPEAT = re.compile(rf"R(?P<count>[+-]?[0-9]+)?/(?:(?P<first>{PART})/)?(?P<last>{PART})")
# A period has at least a second, as in cron rules. With periods of a millisecond, ten thousand schedules would use up
# the throughput of a whole cluster.
PERIOD_MIN = timedelta(seconds=1)
FREQUENT_MAX = 10  # a repeat with a period below PERIOD_MIN may fire at most this many times
MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Repeat:
    """A repeat: the count of firings (-1 means no end), the period, the time zone, and a start or an end.

    shape:   `skipped_start` is the local time of a start that the zone's clock skips; else None
    """

    repetitions: int
    period: Duration
    zone: ZoneInfo
    start: datetime | None = None
    end: datetime | None = None
    skipped_start: datetime | None = None

    def __str__(self) -> str:
        """Return the canonical ISO 8601 text without the zone, which has its own column."""
        count = "" if self.repetitions == WITHOUT_END else self.repetitions
        start = f"{canonical_moment(self.start)}/" if self.start else ""
        if self.skipped_start:
            start = f"{canonical_moment(self.skipped_start).removesuffix('Z')}/"
        end = f"/{canonical_moment(self.end)}" if self.end else ""
        return f"R{count}/{start}{self.period}{end}"

    @property
    def fixed_period(self) -> timedelta | None:
        """Return the period; None if the repeat has an end, or if the length of the period varies."""
        varies = self.period.months or (self.period.days and self.zone != UTC_ZONE)
        return None if varies or self.end else self.period.average()

    def first(self, created: datetime, *, number: int = 1) -> ScheduledOccurrence | None:
        """Find the first occurrence: the start, or the first grid point from `created` on if the start is in the past.

        Without a start, the first occurrence is a period after `created`.
        """
        if self.start is None:
            return self._occurrence(number, created, number - 1)
        if self.start >= created:
            return self._occurrence(number, self.start, number)
        steps = self._steps_up_to(created - MICROSECOND, self.start) + 1
        return self._occurrence(number, self.start, number - steps)

    def next(self, current: ScheduledOccurrence) -> ScheduledOccurrence | None:
        """Find the next occurrence on the grid, even if it is in the past."""
        return self._occurrence(current.number + 1, current.anchor, current.anchor_number)

    def before(self, current: ScheduledOccurrence) -> datetime | None:
        """Return the grid point before an occurrence, even before the start; None if it is before the year 1."""
        return self._due_date(current.number - current.anchor_number - 1, current.anchor)

    def after(self, current: ScheduledOccurrence, now: datetime) -> CatchUp:
        """Count the occurrences after `current` up to now by arithmetic, and find the next occurrence."""
        until = min(now, self.end or now)
        due = current.anchor_number + self._steps_up_to(until, current.anchor)
        last = max(due, current.number)
        return CatchUp(last - current.number, self._occurrence(last + 1, current.anchor, current.anchor_number))

    def grid_time(self, occurrence: ScheduledOccurrence) -> datetime:
        """Return an occurrence's local time on the grid, even if the zone's clock skips it.

        errors:  OverflowError  the wall clock leaves the years 1 to 9999
        """
        steps = occurrence.number - occurrence.anchor_number
        if steps and not (self.period.months or self.period.days):
            return to_local(occurrence.due_date, self.zone)
        local = self._skipped(occurrence.anchor) or to_local(occurrence.anchor, self.zone)
        on_the_clock = replace(self.period, elapsed=timedelta(0))
        return add_duration(local.replace(tzinfo=UTC), on_the_clock, UTC_ZONE, times=steps).replace(tzinfo=None)

    def _skipped(self, anchor: datetime) -> datetime | None:
        return self.skipped_start if anchor == self.start else None

    def _occurrence(self, number: int, anchor: datetime, anchor_number: int) -> ScheduledOccurrence | None:
        due_date = self._due_date(number - anchor_number, anchor)
        if due_date is None or (self.end and due_date > self.end):
            return None
        return ScheduledOccurrence(number, due_date, anchor, anchor_number)

    def _steps_up_to(self, moment: datetime, anchor: datetime) -> int:
        """Return the number of the last grid point up to a moment.

        Due dates never descend, but two may be equal, because Samoa had no 30 December 2011. The number is first
        estimated from the average period. The estimate is never wrong by more than a few days, so the correction takes
        one or two steps.
        """
        steps = (moment - anchor) // self.period.average()
        if not (self.period.months or self.period.days):
            return steps
        steps = max(steps, 0)
        while (due_date := self._due_date(steps + 1, anchor)) and due_date <= moment:
            steps += 1
        while steps > 0 and not ((due_date := self._due_date(steps, anchor)) and due_date <= moment):
            steps -= 1
        return steps

    def _due_date(self, steps: int, anchor: datetime) -> datetime | None:
        try:
            due_date = add_duration(anchor, self.period, self.zone, times=steps, local=self._skipped(anchor))
        except OverflowError:
            return None
        return due_date if due_date <= LATEST_DUE_DATE else None


def parse_repeat(text: str, zone: ZoneInfo) -> Repeat:
    """Parse a repeat: R3/PT1H, R/2024-03-29T10:00[Europe/Berlin]/P1D, R/start/end or R/P1D/end.

    Rn/… fires n times, R0/… fires once, R/… and R-1/… fire without end. The schedule's zone is the zone in the text;
    otherwise `zone`. Local times are times of this zone. Local times are refused in UTC, because UTC may be only the
    default zone. The count may have a plus sign, as in Java; the R must be a capital letter.

    errors:  InvalidTimer  the text is not a repeat, its count or period is out of bounds, its end is not after its
                           start, a moment does not exist, or its zones disagree
    """
    match = REPEAT.fullmatch(text) if len(text) <= REPEAT_CHARS_MAX else None
    if match is None or not match["last"]:
        check_brackets(text)
        raise InvalidTimer(
            f"{shortened(text)} is not an ISO 8601 repeat; write R/PT1H, R3/PT1H for three times,"
            " or R/2026-01-31T08:00:00Z/P1D from a start on"
        )
    repetitions = _repetitions(text, match["count"])
    zone = agreed_zone(text, zone)
    repeat = _repeat(text, repetitions, zone, first=match["first"], last=match["last"])
    _check_frequency(text, repetitions, repeat.period)
    return repeat


def _repeat(text: str, repetitions: int, zone: ZoneInfo, *, first: str | None, last: str) -> Repeat:
    # An empty start means no start, as in Zeebe.
    if not first:
        return Repeat(repetitions, _period(text, last), zone)
    if looks_like_duration(first):
        return Repeat(repetitions, _period(text, first), zone, end=_moment(text, last, zone).moment)
    start, skipped = _moment(text, first, zone)
    if looks_like_duration(last):
        return Repeat(repetitions, _period(text, last), zone, start=start, skipped_start=skipped)
    return Repeat(repetitions, _between(text, start, _moment(text, last, zone).moment), zone, start=start)


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


def _period(text: str, part: str) -> Duration:
    try:
        period = parse_duration(part)
    except InvalidTimer as refusal:
        raise InvalidTimer(f"{shortened(text)} has no valid period: {refusal}") from None
    if not period.average():
        raise InvalidTimer(f"{shortened(text)} has a period of zero; write one longer than zero, such as PT1S")
    return period


def _check_frequency(text: str, repetitions: int, period: Duration) -> None:
    if period.average() < PERIOD_MIN and not 0 < repetitions <= FREQUENT_MAX:
        raise InvalidTimer(
            f"{shortened(text)} repeats more often than once a second; write a period of PT1S or longer,"
            f" or a count of at most {FREQUENT_MAX}"
        )


def _moment(text: str, part: str, zone: ZoneInfo) -> ParsedMoment:
    try:
        written = parse_written(part, None if zone == UTC_ZONE else zone)
    except InvalidTimer as refusal:
        raise InvalidTimer(f"{shortened(text)} has no valid start or end: {refusal}") from None
    try:
        to_local(written.moment, zone)
    except OverflowError:
        raise InvalidTimer(
            f"{shortened(text)} leaves the years 0001 to 9999 on the clock of {zone}; choose another start or end"
        ) from None
    return written


def _between(text: str, start: datetime, end: datetime) -> Duration:
    if end <= start:
        raise InvalidTimer(
            f"{shortened(text)} ends before or at its beginning; its end must come after its start, by one period"
        )
    return Duration(months=0, days=0, elapsed=end - start)
