"""Define the occurrences of a schedule, and what every kind of rule can say about them."""

from datetime import datetime
from typing import NamedTuple, Protocol
from zoneinfo import ZoneInfo

WITHOUT_END = -1


class Occurrence(NamedTuple):
    """Hold one occurrence: its number, its due date, and the point of the rule's grid from which numbers are counted.

    The grid has number `anchor_number` at `anchor` (a repeat without a start does not fire there: its first occurrence
    comes one period later). A repeat keeps its anchor for ever; for cron each occurrence is its own anchor. So a user
    may move `due_date`, and the grid is still known. All moments are aware and in UTC.
    """

    number: int
    due_date: datetime
    anchor: datetime
    anchor_number: int


class Later(NamedTuple):
    """Tell what comes after an occurrence: how many are due by now, and the first one strictly after now."""

    missed: int
    next: Occurrence | None


class Rule(Protocol):
    """Make one due date after another. A rule is immutable; `str()` gives its canonical text.

    A method returns None as the occurrence if there is none, beyond the rule's end or the year 9999. No method
    considers `repetitions`: `timers.schedule` does.
    """

    @property
    def zone(self) -> ZoneInfo:
        """The zone on whose wall clock the rule is read."""

    @property
    def repetitions(self) -> int:
        """How often the rule fires in total; -1 is without end."""

    def first(self, created: datetime, *, number: int = 1) -> Occurrence | None:
        """Find the first occurrence of a schedule made at `created`, and give it this number."""

    def next(self, current: Occurrence) -> Occurrence | None:
        """Find the next occurrence on the grid, due or not."""

    def after(self, current: Occurrence, now: datetime) -> Later:
        """Count the occurrences after `current` that are due by now, and find the first one after now and `current`."""
