"""How far back a scan of the timers reads past rows that have fired: pure decisions.

A row that has fired stays in the index until vacuum removes it, and a scan from the oldest row reads past it.
Why, and what it saves: docs/decisions/0023-fired-rows-that-stay.md.
"""

import math
from dataclasses import dataclass
from datetime import timedelta

from shardclock_server.timers.model import SLOTS

# After a scan that did not come back, the next one scans this many times fewer slots in full. After a quick one it may
# scan this many times more: what holds a scan up is more often a lock than rows that have fired.
SHRINK_AFTER_FAILURE, GROWTH_MAX = 8, 8


@dataclass(frozen=True, slots=True)
class ScanWindow:
    """Scan `full_count` slots, from slot `full_from` on, from their oldest row.

    Scan the other slots only for timers due within the last `recent_s`.
    """

    recent_s: float
    full_from: int
    full_count: int


def values_of(window: ScanWindow | None) -> dict[str, timedelta | int | None]:
    """Give a window's values for a statement; three nulls mean: scan every slot from its oldest row."""
    if window is None:
        return {"recent": None, "full_from": None, "full_count": None}
    return {
        "recent": timedelta(seconds=window.recent_s),
        "full_from": window.full_from,
        "full_count": window.full_count,
    }


@dataclass(slots=True)
class RotatingScan:
    """Scan the recent window of every slot each time, and a rotating subset of slots in full.

    The recent window goes back to the start of the last scan that came back, or to the oldest timer that it left
    overdue, and `margin_s` further, for timers that could not be seen when they fell due. A timer that became due
    longer ago than that, because it was scheduled late or was leased, is found within `rotation_s`; later when scans
    are slow.

    There may be many rows that have fired and that vacuum can't remove yet. So after a scan that took longer than
    `long_s`, or failed after that time, the next one scans fewer slots in full. After one that took less, the next may
    scan twice as many, or as many as should fit in that time.

    units:   now_s in seconds of the monotonic clock
    """

    rotation_s: float
    margin_s: float
    long_s: float
    _since_s: float | None = None  # the rotation finds timers that fell due before this; None before the first scan
    _began_at_s: float = 0.0
    _full_count: int = 0  # of the current scan
    _full_count_max: int = SLOTS
    _full_from: int = 0

    def begin(self, *, now_s: float, every_s: float | None = None) -> ScanWindow | None:
        """Give the window of a scan that begins now; None scans every slot in full.

        units:   every_s is the time between two scans; without it, this scan is a whole rotation, if it can be
        """
        count = SLOTS if every_s is None or self._since_s is None else math.ceil(SLOTS * every_s / self.rotation_s)
        self._began_at_s, self._full_count = now_s, min(count, self._full_count_max)
        if self._full_count >= SLOTS:
            return None
        since = now_s if self._since_s is None else self._since_s
        return ScanWindow(now_s - since + self.margin_s, self._full_from, self._full_count)

    def learn(self, *, now_s: float, left_s: float = 0.0) -> None:
        """Record that the scan came back, and for how long the oldest timer that it left has been overdue."""
        self._since_s = self._began_at_s - left_s
        self._full_from = (self._full_from + self._full_count) % SLOTS
        took_s = now_s - self._began_at_s
        if took_s > self.long_s:
            self._full_count_max = max(1, self._full_count // 2)
        elif self._full_count == self._full_count_max:
            growth = min(max(2, self.long_s / took_s), GROWTH_MAX) if took_s else GROWTH_MAX
            self._full_count_max = min(SLOTS, math.ceil(growth * self._full_count))

    def fail(self, *, now_s: float) -> None:
        """Record that the scan did not come back; a scan that failed at once says nothing about its length."""
        if now_s <= self._began_at_s + self.long_s:
            return
        if self._since_s is None or self._full_count == 1:
            self._since_s = self._began_at_s
        self._full_count_max = max(1, self._full_count // SHRINK_AFTER_FAILURE)
