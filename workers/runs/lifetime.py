"""Compute the time after which a run's process ends itself if its worker is dead."""

import math
import time
from collections.abc import Callable

MARGIN_S = 2.0  # a run's process ends this long before the lease of the run


class Lifetime:
    """The lifetime of a run's process: each poll extends it; at its end the process ends itself.

    units:   seconds of the monotonic clock
    """

    def __init__(self, lease_until_s: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.lease_until_s = lease_until_s
        self.ends_by_s = math.inf  # finite after a request to end the run
        self._clock = clock
        self._gone_by_s = -math.inf

    @property
    def left_s(self) -> float:
        """Return the time that the next poll may grant; it is never negative."""
        return max(0.0, min(self.lease_until_s, self.ends_by_s) - self._clock())

    @property
    def may_live_s(self) -> float:
        """Return the time, at least 0, after which the process ends itself even if nothing kills it."""
        return max(0.0, self._gone_by_s - self._clock())

    def grant(self) -> float:
        """Return the time to grant to the process; until it answers, the longer of the last two grants counts."""
        left_s = self.left_s
        self._gone_by_s = max(self._gone_by_s, self._clock() + left_s)
        return left_s

    def was_granted(self, left_s: float) -> None:
        """Record the answer of the process: only this grant counts."""
        self._gone_by_s = self._clock() + left_s
