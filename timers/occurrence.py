"""Define the occurrences of a schedule, and the interface of the rules that compute them."""

from datetime import datetime, timedelta
from typing import NamedTuple, Protocol
from zoneinfo import ZoneInfo

WITHOUT_END = -1


class ScheduledOccurrence(NamedTuple):
    """One occurrence: its number, its due date, and an anchor from which later occurrences are computed.

    The grid of a rule is the sequence of its regular due dates. The grid point at `anchor` has the number
    `anchor_number`. A repeat without a start does not fire at `anchor`: its first occurrence comes one period later.
    All occurrences of a repeat have the same anchor; each occurrence of a cron rule is its own anchor. So the grid does
    not change if a user moves `due_date`. All moments are aware and in UTC.
    """

    number: int
    due_date: datetime
    anchor: datetime
    anchor_number: int


class CatchUp(NamedTuple):
    """The number of occurrences after the current occurrence up to now, and the first occurrence after now."""

    missed: int
    next: ScheduledOccurrence | None


class ScheduleRule(Protocol):
    """The interface of a rule: it computes one due date after another.

    A rule is immutable; `str()` gives its canonical text.

    A method returns None if the occurrence would be after the rule's end or the year 9999. The methods ignore the limit
    `repetitions`, which `timers.schedule` applies.
    """

    @property
    def zone(self) -> ZoneInfo:
        """The time zone of the rule's local times."""

    @property
    def repetitions(self) -> int:
        """Return the total number of firings; -1: no end."""

    @property
    def fixed_period(self) -> timedelta | None:
        """Return the constant time between two occurrences; None if the time varies or the rule has an end."""

    def first(self, created: datetime, *, number: int = 1) -> ScheduledOccurrence | None:
        """Find the first occurrence, with the number `number`, of a schedule that was created at `created`."""

    def next(self, current: ScheduledOccurrence) -> ScheduledOccurrence | None:
        """Find the next occurrence on the grid, even if it is in the past."""

    def after(self, current: ScheduledOccurrence, now: datetime) -> CatchUp:
        """Count the occurrences after `current` up to now; find the first occurrence after both `current` and now."""
