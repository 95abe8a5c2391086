"""Step through the moments of a cron rule on a zone's wall clock, and count them without stepping.

A cron rule is two plain sets: days, and times of a day. So the matches between two local times are days × times, with
corrections on the first and the last day only (`cron_local`). A zone's clock is a row of stretches without a jump
(`stretches`), and to step or to count is to walk them. Moments are whole seconds in UTC, as there.
"""

from dataclasses import dataclass, field
from datetime import date, datetime
from functools import lru_cache
from zoneinfo import ZoneInfo

from timers.cron_fields import Fields, parse_fields
from timers.cron_local import YEAR_MAX, count_local, local_match
from timers.occurrence import WITHOUT_END, Later, Occurrence
from timers.stretches import BACK_MAX, DAY, END, Stretch, moment_of, second_of, stretches, year_of

# By then the zone database lists no more changes (Morocco's last, 2087): all are by rule, and repeat as the calendar
# does, after 400 years of 20,871 weeks.
LAST_LISTED = date(2100, 1, 1).toordinal() * DAY
CYCLE = 146_097 * DAY


@dataclass(frozen=True, slots=True)
class Cron:
    """Hold a cron rule, read on a zone's wall clock; each of its occurrences is its own anchor."""

    text: str
    zone: ZoneInfo
    fields: Fields = field(repr=False, compare=False)

    def __str__(self) -> str:
        """Write the text that is stored: trimmed, single spaces, names in upper case, nicknames in lower case."""
        return self.text

    @property
    def repetitions(self) -> int:
        """Cron never ends by itself."""
        return WITHOUT_END

    def first(self, created: datetime, *, number: int = 1) -> Occurrence | None:
        """Find the first match strictly after a schedule was made."""
        return _occurrence(self._following(second_of(created)), number)

    def next(self, current: Occurrence) -> Occurrence | None:
        """Find the first match strictly after the current one's place on the grid."""
        return _occurrence(self._following(second_of(current.anchor)), current.number + 1)

    def after(self, current: Occurrence, now: datetime) -> Later:
        """Count the matches after the current one that are due by now, and find the first one after both."""
        start = second_of(current.anchor)
        until = max(second_of(now), start)
        missed = self._count(start, until)
        return Later(missed, _occurrence(self._following(until), current.number + missed + 1))

    def _following(self, moment: int) -> int | None:
        """Find the first match strictly after a moment."""
        if not any(year.total for year in self.fields.years):
            return None
        known_from, match = 0, -1  # there is no local match in [known_from, match)
        first_year = year = year_of(moment)
        while year <= YEAR_MAX:
            for stretch in stretches(self.zone, year):
                if stretch.end <= moment + 1:
                    continue
                lowest = self._lowest(stretch, moment)
                if not known_from <= lowest <= match:
                    known_from, match = lowest, local_match(self.fields, lowest)
                if match < stretch.end + stretch.offset:
                    return match - stretch.offset
            year += 1
            # A clock put back at New Year repeats matches of the year before; later on, years without one are left out.
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
        return sum(self._count_in(stretch, start, until) for year in years for stretch in stretches(self.zone, year))

    def _count_in(self, stretch: Stretch, start: int, until: int) -> int:
        low = self._lowest(stretch, start)
        high = min(until + 1, stretch.end) + stretch.offset
        return count_local(self.fields, max(low, 0), min(high, END)) if low < high else 0

    def _lowest(self, stretch: Stretch, moment: int) -> int:
        """Find the first local second of a stretch that lies after a moment and may match."""
        lowest = max(moment + 1, stretch.start) + stretch.offset
        return lowest if self.fields.fires_twice else max(lowest, stretch.fresh)


def looks_like_cron(text: str) -> bool:
    """Tell cron from ISO 8601, whose repeats begin with R and periods with P, as no cron rule does."""
    return not text.lstrip().startswith(("R", "r", "P", "p"))


# Every firing of a schedule reads its text again; a cluster has few distinct ones.
@lru_cache(maxsize=4_096)
def parse_cron(text: str, zone: ZoneInfo) -> Cron:
    """Read a rule of six fields (Spring's cron), of five (Unix cron), or a nickname such as @daily.

    A local time that the clock skips never matches. One that comes twice matches the first time only, unless the
    minute or the hour begins with `*`.

    errors:  InvalidTimer  not cron; a rule that never matches, such as 30 February, is, but has no first occurrence
    """
    fields = parse_fields(text)
    return Cron(fields.text, zone, fields)


def _occurrence(moment: int | None, number: int) -> Occurrence | None:
    if moment is None:
        return None
    due_date = moment_of(moment)
    return Occurrence(number, due_date, anchor=due_date, anchor_number=number)
