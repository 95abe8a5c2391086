"""How long a run's process lives if nobody reaches it any more: it ends itself, and its worker knows by when."""

import math
import time
from collections.abc import Callable

MARGIN_S = 2.0  # a run's process is gone so long before its lease is over


class Lifetime:
    """Keep how long a run's process may live: each look grants some time, and without another one it ends itself.

    units:   seconds of the monotonic clock
    """

    def __init__(self, lease_until_s: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.lease_until_s = lease_until_s
        self.ends_by_s = math.inf  # the run was told to end
        self._clock = clock
        self._gone_by_s = -math.inf

    @property
    def left_s(self) -> float:
        """Return how long the process may live, 0 at least."""
        return max(0.0, min(self.lease_until_s, self.ends_by_s) - self._clock())

    @property
    def rest_s(self) -> float:
        """Return how long the process may still live if a kill doesn't reach it, 0 at least."""
        return max(0.0, self._gone_by_s - self._clock())

    def grant(self) -> float:
        """Return the time to send to the process. Until it answers it may have this one or the one before."""
        left_s = self.left_s
        self._gone_by_s = max(self._gone_by_s, self._clock() + left_s)
        return left_s

    def was_granted(self, left_s: float) -> None:
        """Take note that the process has answered: what it had before counts no more."""
        self._gone_by_s = self._clock() + left_s
