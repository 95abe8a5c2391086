"""Choose, for each scan of the timers table, the slots that the scan reads from their oldest row.

The functions are pure.

The index contains the dead row of a fired timer until vacuum removes it, and a scan from the oldest row must read all
dead rows. The reason and the figures: docs/decisions/0023-fired-rows-that-stay.md.
"""

import math
from dataclasses import dataclass
from datetime import timedelta

from shardclock_server.timers.model import SLOTS

# After a failed scan, the number of full slots is divided by the first number. After a quick scan, it is multiplied by
# at most the second number. The second number is high, because most slow scans waited for a lock, and would be as slow
# with fewer slots.
SHRINK_AFTER_FAILURE, GROWTH_MAX = 8, 8


@dataclass(frozen=True, slots=True)
class ScanWindow:
    """A window of `full_count` slots from slot `full_from` on, which a scan reads from their oldest row.

    All slots outside the window are scanned only for timers that became due within the last `recent_s`.
    """

    recent_s: float
    full_from: int
    full_count: int


def values_of(window: ScanWindow | None) -> dict[str, timedelta | int | None]:
    """Return a window's values for a statement.

    If the window is None, the values are three nulls, so that the statement scans every slot from its oldest row.
    """
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

    The recent window begins at the start of the last successful scan, or at the oldest overdue timer that this scan
    left. The window is extended by `margin_s`, for timers that were committed after their due dates. A timer that was
    scheduled late or was leased may have become due before the window. The rotation finds this timer within
    `rotation_s`, or later if scans are slow.

    There may be many dead rows that vacuum can't remove yet. Therefore the next scan reads fewer slots in full if a
    scan, successful or not, took longer than `long_s`. After a quicker scan, the number of full slots may double, or
    grow to the number that a scan can read within `long_s`.

    units:   now_s in seconds of the monotonic clock
    """

    rotation_s: float
    margin_s: float
    long_s: float
    _since_s: float | None = None  # the start of the recent window; None before the first scan
    _began_at_s: float = 0.0
    _full_count: int = 0  # the number of slots that the current scan reads from their oldest row
    _full_count_max: int = SLOTS
    _full_from: int = 0

    def begin(self, *, now_s: float, every_s: float | None = None) -> ScanWindow | None:
        """Begin a scan now, and return its window; None: scan every slot in full.

        units:   every_s is the time between two scans; None: this scan reads all slots in full, or as many as it can
                 read within long_s
        """
        count = SLOTS if every_s is None or self._since_s is None else math.ceil(SLOTS * every_s / self.rotation_s)
        self._began_at_s, self._full_count = now_s, min(count, self._full_count_max)
        if self._full_count >= SLOTS:
            return None
        since = now_s if self._since_s is None else self._since_s
        return ScanWindow(now_s - since + self.margin_s, self._full_from, self._full_count)

    def learn(self, *, now_s: float, left_s: float = 0.0) -> None:
        """Record that the scan succeeded, and the age of the oldest overdue timer that the scan left."""
        self._since_s = self._began_at_s - left_s
        self._full_from = (self._full_from + self._full_count) % SLOTS
        took_s = now_s - self._began_at_s
        if took_s > self.long_s:
            self._full_count_max = max(1, self._full_count // 2)
        elif self._full_count == self._full_count_max:
            growth = min(max(2, self.long_s / took_s), GROWTH_MAX) if took_s else GROWTH_MAX
            self._full_count_max = min(SLOTS, math.ceil(growth * self._full_count))

    def fail(self, *, now_s: float) -> None:
        """Record that the scan failed; an immediate failure has no effect, because it says nothing about slow scans."""
        if now_s <= self._began_at_s + self.long_s:
            return
        if self._since_s is None or self._full_count == 1:
            self._since_s = self._began_at_s
        self._full_count_max = max(1, self._full_count // SHRINK_AFTER_FAILURE)
