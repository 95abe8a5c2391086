"""Compute how many shards the load needs (pure)."""

import math
from collections import deque
from dataclasses import dataclass, field

from shardclock_server.sql.metrics.forecast import Forecast

CATCH_UP_S = 10.0  # overdue timers should be fired within this time


@dataclass(frozen=True, slots=True)
class ClusterLoad:
    """The load of a cluster: the upcoming and overdue timers in the table, and the recent rate of log records.

    The table lacks later occurrences of schedules, and timers that clients have not scheduled yet. The recent rate of
    log records estimates these missing timers. The estimate is too high if timers have targets or are cancelled,
    because such timers have several log records.
    """

    forecast: Forecast
    overdue: int
    recent_per_s: float

    def per_s(self, *, within_s: float) -> float:
        """Return the highest firing rate that the load requires within the next `within_s`."""
        return max(self.forecast.peak_within(within_s), self.recent_per_s) + self.overdue / CATCH_UP_S


def shards_for(per_s: float, *, target_per_s: int) -> int:
    """Return how many shards are needed to fire `per_s` timers a second, if each shard fires `target_per_s`."""
    return max(1, math.ceil(per_s / target_per_s))


@dataclass(slots=True)
class GiveBack:
    """Smooth a number: an increase applies immediately, and a decrease applies after the number was lower for
    `after_s`.

    units:   now_s in seconds of the monotonic clock
    """

    after_s: float
    _peaks: deque[tuple[float, int]] = field(default_factory=deque)

    def __bool__(self) -> bool:
        """Return whether `follow` was called before."""
        return bool(self._peaks)

    def follow(self, number: int, *, now_s: float) -> int:
        """Return the largest `number` that this call or a call within the last `after_s` received."""
        while self._peaks and self._peaks[-1][1] <= number:
            self._peaks.pop()
        self._peaks.append((now_s, number))
        while self._peaks[0][0] < now_s - self.after_s:
            self._peaks.popleft()
        return self._peaks[0][1]
