"""Calculate the occurrences of a schedule without any code of the product.

The oracle supports ISO 8601 repeats of elapsed time, and cron.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Protocol

from cronsim import CronSim, CronSimError

REPEAT = re.compile(r"R(-1|\d*)/PT(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?")


class Rule(Protocol):
    """Calculates the occurrences of one schedule.

    `count` is the number of occurrences, None for an endless schedule.
    """

    count: int | None

    def due(self, first: datetime, number: int) -> datetime | None:
        """Return the due date of an occurrence; None if `first` is not an occurrence of the rule."""

    def latest_first(self, made: datetime) -> datetime:
        """Return the latest possible first occurrence of a schedule that was created at a given moment."""


class Repeat:
    """Repeats a period of elapsed time; the periods count from the first occurrence."""

    def __init__(self, count: int | None, period: timedelta) -> None:
        self.count = count
        self.period = period

    def due(self, first: datetime, number: int) -> datetime:
        """Add the number of periods to the first occurrence."""
        return first + (number - 1) * self.period

    def latest_first(self, made: datetime) -> datetime:
        """Return the moment of creation plus one period."""
        return made + self.period


class Cron:
    """Steps through a cron rule of five or six fields in UTC; all schedules of a run share the result."""

    count: int | None = None

    def __init__(self, text: str) -> None:
        self.text = text
        self._grid: list[datetime] = []
        self._places: dict[datetime, int] = {}
        self._steps: CronSim | None = None

    def due(self, first: datetime, number: int) -> datetime | None:
        """Step through the rule from the first occurrence to the occurrence with this number; cache each step."""
        if not self._grid or first < self._grid[0]:
            self._steps, self._grid, self._places = CronSim(self.text, first - timedelta(seconds=1)), [], {}
        while not self._grid or self._grid[-1] < first:
            self._step()
        place = self._places.get(first)
        if place is None:
            return None
        while len(self._grid) < place + number:
            self._step()
        return self._grid[place + number - 1]

    def latest_first(self, made: datetime) -> datetime:
        """Return the rule's first date after the creation of the schedule."""
        return next(CronSim(self.text, made))

    def _step(self) -> None:
        assert self._steps is not None, "made with the grid"
        self._places[moment := next(self._steps)] = len(self._grid)
        self._grid.append(moment)


@cache
def read_rule(text: str) -> Rule | None:
    """Read a rule; return None if this oracle does not support the rule's kind."""
    match = REPEAT.fullmatch(text)
    if match:
        count, hours, minutes, seconds = match.groups()
        period = timedelta(hours=int(hours or 0), minutes=int(minutes or 0), seconds=float(seconds or 0))
        return Repeat(None if count in ("", "-1") else max(1, int(count)), period) if period else None
    if text.startswith("R"):
        return None
    try:
        next(CronSim(text, datetime(2030, 1, 1, tzinfo=UTC)))
    except (CronSimError, StopIteration):
        return None
    return Cron(text)
