"""Compute the time after which a run's process ends itself if its worker is dead."""

import math
import time
from collections.abc import Callable

MARGIN_S = 2.0  # the time between the end of a run's process and the end of the run's lease


class Lifetime:
    """The time that a run's process may live without a poll: each poll extends it, and the process then ends itself.

    units:   seconds of the monotonic clock
    """

    def __init__(self, lease_until_s: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.lease_until_s = lease_until_s
        self.ends_by_s = math.inf  # a finite time after a request to end the run
        self._clock = clock
        self._gone_by_s = -math.inf

    @property
    def left_s(self) -> float:
        """Return the time that the next poll may grant; it is never negative."""
        return max(0.0, min(self.lease_until_s, self.ends_by_s) - self._clock())

    @property
    def may_live_s(self) -> float:
        """Return the time until the process ends itself; it is never negative."""
        return max(0.0, self._gone_by_s - self._clock())

    def grant(self) -> float:
        """Return the time to grant to the process; before its answer, the longer of the last two grants applies."""
        left_s = self.left_s
        self._gone_by_s = max(self._gone_by_s, self._clock() + left_s)
        return left_s

    def was_granted(self, left_s: float) -> None:
        """Record that the process has answered, so that only this grant applies."""
        self._gone_by_s = self._clock() + left_s
