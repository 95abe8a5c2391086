"""How many shards the load asks for: pure decisions, taken from a few numbers."""

import math
from collections import deque
from dataclasses import dataclass, field

from sql.forecast import Forecast

CATCH_UP_S = 10.0  # what is overdue shall be fired within so many seconds


@dataclass(frozen=True, slots=True)
class Load:
    """What there is to fire: what the table says is coming, what is late, and what was fired lately.

    Timers that are scheduled to be due at once, and the occurrences of schedules that are still to be written, are in
    no table yet: of them, what has been fired lately is the best that is known.
    """

    forecast: Forecast
    overdue: int
    recent_per_s: float

    def per_s(self, *, within_s: float) -> float:
        """Give the rate that is asked for at some moment of the next so many seconds."""
        return max(self.forecast.peak_within(within_s), self.recent_per_s) + self.overdue / CATCH_UP_S


def shards_for(per_s: float, *, target_per_s: int) -> int:
    """Give the fewest shards that fire so many timers a second, if each fires its target."""
    return max(1, math.ceil(per_s / target_per_s))


@dataclass(slots=True)
class GiveBack:
    """Follow a number upwards at once, and downwards only when it has stayed lower for a while.

    units:   now_s in seconds of the monotonic clock
    """

    after_s: float
    _peaks: deque[tuple[float, int]] = field(default_factory=deque)

    def __bool__(self) -> bool:
        """Say whether there is any past."""
        return bool(self._peaks)

    def follow(self, number: int, *, now_s: float) -> int:
        """Give the largest number of the last while."""
        while self._peaks and self._peaks[-1][1] <= number:
            self._peaks.pop()
        self._peaks.append((now_s, number))
        while self._peaks[0][0] < now_s - self.after_s:
            self._peaks.popleft()
        return self._peaks[0][1]
