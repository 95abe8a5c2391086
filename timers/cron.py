"""Find the moments of a cron rule on a zone's wall clock, and count them without visiting each moment.

A cron rule consists of a set of days and a set of times of a day. The number of matches between two local times is the
number of days times the number of times; only the first and the last day need a correction (`cron_local`). A zone's
clock is a sequence of spans without a jump (`offsets`), so the functions work span by span. Moments are whole seconds
in UTC, as in `offsets`.
"""

import re
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import lru_cache
from zoneinfo import ZoneInfo

from shardclock_server.timers.cron_fields import CronFields, parse_fields
from shardclock_server.timers.cron_local import YEAR_MAX, count_local, local_match
from shardclock_server.timers.occurrence import WITHOUT_END, CatchUp, ScheduledOccurrence
from shardclock_server.timers.offsets import (
    BACK_MAX,
    DAY,
    END,
    RULES_FROM_YEAR,
    OffsetSpan,
    moment_of,
    offset_spans,
    second_of,
    year_of,
)
from shardclock_server.timers.refusal import InvalidTimer, shortened

# The zone in the first field of a crontab line, such as CRON_TZ=Europe/Berlin.
NAMES_ZONE = re.compile(r"\s*((?:CRON_)?TZ=(\S*))")

# From this year on, each zone changes its clock by a fixed rule. So these changes repeat after 400 years (20,871
# weeks), as the calendar does.
LAST_LISTED = date(RULES_FROM_YEAR, 1, 1).toordinal() * DAY
CYCLE_YEARS = 400
CYCLE = 146_097 * DAY


@dataclass(frozen=True, slots=True)
class Cron:
    """A cron rule for a zone's wall clock. Each occurrence is its own anchor."""

    text: str
    zone: ZoneInfo
    fields: CronFields = field(repr=False, compare=False)

    def __str__(self) -> str:
        """Return the rule's canonical text: trimmed, single spaces, names in upper case, nicknames in lower case."""
        return self.text

    @property
    def repetitions(self) -> int:
        """Return -1, because a cron rule has no end."""
        return WITHOUT_END

    @property
    def fixed_period(self) -> None:
        """Return None, because the time between matches varies."""

    def first(self, created: datetime, *, number: int = 1) -> ScheduledOccurrence | None:
        """Find the first match strictly after `created`."""
        return _occurrence(self._following(second_of(created)), number)

    def next(self, current: ScheduledOccurrence) -> ScheduledOccurrence | None:
        """Find the first match strictly after the anchor of the current occurrence."""
        return _occurrence(self._following(second_of(current.anchor)), current.number + 1)

    def after(self, current: ScheduledOccurrence, now: datetime) -> CatchUp:
        """Count the matches after `current` up to now, and find the first match after both `current` and now."""
        start = second_of(current.anchor)
        until = max(second_of(now), start)
        missed = self._count(start, until)
        return CatchUp(missed, _occurrence(self._following(until), current.number + missed + 1))

    def _following(self, moment: int) -> int | None:
        """Find the first match strictly after a moment."""
        if not any(year.total for year in self.fields.years):
            return None
        known_from, match = 0, -1  # the interval [known_from, match) has no local match
        first_year = year = year_of(moment)
        # The calendar repeats, so a rule without a match in a whole cycle never matches.
        last_year = min(max(year, RULES_FROM_YEAR) + CYCLE_YEARS + 1, YEAR_MAX)
        while year <= last_year:
            for span in offset_spans(self.zone, year):
                if span.end <= moment + 1:
                    continue
                lowest = self._lowest(span, moment)
                if not known_from <= lowest <= match:
                    known_from, match = lowest, local_match(self.fields, lowest)
                if match < span.end + span.offset:
                    return match - span.offset
            year += 1
            # Always search the next year, because its first hours repeat local times of the old year if the clock moves
            # back at New Year. After the next year, skip to the year before the next local match.
            if year > first_year + 1:
                year = max(year, year_of(match) - 1)
        return None

    def _count(self, start: int, until: int) -> int:
        """Count the matches after `start`, up to and including `until`."""
        by_rule = max(start, LAST_LISTED)
        cycles = (until - BACK_MAX - by_rule) // CYCLE
        if cycles <= 0:
            return self._count_years(start, until)
        in_cycle = self._count_years(by_rule, by_rule + CYCLE)
        return (
            self._count_years(start, by_rule) + cycles * in_cycle + self._count_years(by_rule + cycles * CYCLE, until)
        )

    def _count_years(self, start: int, until: int) -> int:
        years = range(year_of(start), year_of(until) + 1)
        return sum(self._count_in(span, start, until) for year in years for span in offset_spans(self.zone, year))

    def _count_in(self, span: OffsetSpan, start: int, until: int) -> int:
        low = self._lowest(span, start)
        high = min(until + 1, span.end) + span.offset
        return count_local(self.fields, max(low, 0), min(high, END)) if low < high else 0

    def _lowest(self, span: OffsetSpan, moment: int) -> int:
        """Return the first local second that may match, in a span and after a moment."""
        lowest = max(moment + 1, span.start) + span.offset
        return lowest if self.fields.fires_twice else max(lowest, span.first_new_local_s)


def looks_like_cron(text: str) -> bool:
    """Return whether a text is cron, not ISO 8601: only ISO 8601 rules begin with R (repeat) or P (period)."""
    return not text.lstrip(" \t\r\n+-").startswith(("R", "r", "P", "p"))


# The results are cached, because each firing of a schedule parses its text, and a cluster has few different texts.
@lru_cache(maxsize=4_096)
def parse_cron(text: str, zone: ZoneInfo) -> Cron:
    """Parse a rule of six fields (Spring's cron) or five fields (Unix cron), or a nickname such as @daily.

    A local time that the zone's clock skips does not match. If the clock shows a local time twice, only the first time
    matches, unless the minute or the hour field begins with `*`.

    errors:  InvalidTimer  the text is not cron; a rule without a match, such as 30 February, is accepted: `first`
                           returns None
    """
    if named := NAMES_ZONE.match(text):
        way_out = f"leave {named[1]} out, and give {shortened(named[2])} as zone"
        raise InvalidTimer(f"{shortened(text)} names a zone; {way_out}")
    fields = parse_fields(text)
    return Cron(fields.text, zone, fields)


def _occurrence(moment: int | None, number: int) -> ScheduledOccurrence | None:
    if moment is None:
        return None
    due_date = moment_of(moment)
    return ScheduledOccurrence(number, due_date, anchor=due_date, anchor_number=number)
