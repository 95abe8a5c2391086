"""Compute the time after which a run's process exits if its worker is dead."""

import math
import time
from collections.abc import Callable

MARGIN_S = 2.0  # The process exits this much earlier than its run's lease expires.


class Lifetime:
    """The time after which a run's process exits if it receives no poll; each poll extends this time.

    units:   seconds of a monotonic clock
    """

    def __init__(self, lease_until_s: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.lease_until_s = lease_until_s
        self.ends_by_s = math.inf  # set to an earlier moment when the run must end
        self._clock = clock
        self._gone_by_s = -math.inf

    @property
    def left_s(self) -> float:
        """Return the time that the next poll may grant, at least 0."""
        return max(0.0, min(self.lease_until_s, self.ends_by_s) - self._clock())

    @property
    def may_live_s(self) -> float:
        """Return the longest time until the process exits, at least 0."""
        return max(0.0, self._gone_by_s - self._clock())

    def grant(self) -> float:
        """Return the time to grant to the process.

        Until the process answers, the longer of the last two grants may apply.
        """
        left_s = self.left_s
        self._gone_by_s = max(self._gone_by_s, self._clock() + left_s)
        return left_s

    def was_granted(self, left_s: float) -> None:
        """Record that the process has received this grant, so that only this grant is valid."""
        self._gone_by_s = self._clock() + left_s
