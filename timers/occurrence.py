"""Name the occurrences of a schedule, and say what every kind of rule can tell of them."""

from datetime import datetime
from typing import NamedTuple, Protocol
from zoneinfo import ZoneInfo

WITHOUT_END = -1


class Occurrence(NamedTuple):
    """Hold one occurrence: its number, its due date, and the place on its rule's grid that numbers are counted from.

    The occurrence numbered `anchor_number` stands at `anchor` (or would, for a repeat whose first comes a period after
    the anchor). A repeat keeps its anchor for ever; for cron each occurrence is its own anchor. So `due_date` may have
    been moved by a user, and the grid is still known. All moments are aware and in UTC.
    """

    number: int
    due_date: datetime
    anchor: datetime
    anchor_number: int


class Later(NamedTuple):
    """Tell what a rule has after an occurrence: how many are due by now, and the first one strictly after now."""

    missed: int
    next: Occurrence | None


class Rule(Protocol):
    """Make one due date after another. Immutable; `str()` of it is the text that is stored.

    Each method answers None where there is no such occurrence: beyond the rule's end or the year 9999. None of them
    looks at how often a rule repeats: that is the schedule's business.
    """

    @property
    def zone(self) -> ZoneInfo:
        """The zone on whose wall clock the rule is read."""

    @property
    def repetitions(self) -> int:
        """How often the rule fires in all; -1 is without end."""

    def first(self, created: datetime, *, number: int = 1) -> Occurrence | None:
        """Find the first occurrence of a schedule made at `created`, and give it this number."""

    def next(self, current: Occurrence) -> Occurrence | None:
        """Find the occurrence that follows on the grid, due or not."""

    def after(self, current: Occurrence, now: datetime) -> Later:
        """Count the occurrences after `current` that are due by now, and find the first one after both."""
