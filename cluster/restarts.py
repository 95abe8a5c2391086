"""Decide when to restart a failed process: the first time without a pause, then after growing pauses."""

import time

from shardclock.backoff import Backoff

STEADY_S = 60.0  # a start counts as successful if the process then runs for this time


class Restarts:
    """Decide when a process may start, from the time of its last start and the number of its failures.

    units:   `least_s` is the shortest pause before a restart, even if the process ran for a long time
    """

    def __init__(self, pauses: Backoff, *, least_s: float = 0.0) -> None:
        self._pauses, self._least_s = pauses, least_s
        self.failures = 0  # consecutive failures since the last successful start
        self._start_at_s = 0.0
        self.started_at_s = 0.0

    @property
    def is_due(self) -> bool:
        """Return whether the pause before the next start is over."""
        return time.monotonic() >= self._start_at_s

    def begin(self) -> None:
        """Record that the process starts now."""
        self.started_at_s = time.monotonic()

    def fail(self, *, was_ready: bool = True) -> float:
        """Record a death or a failed start of the process; return the seconds before the next start.

        The death of a process that was never ready counts as a failed start.
        """
        now_s = time.monotonic()
        if was_ready and now_s - self.started_at_s > STEADY_S:
            self.failures = 0
        pause_s = max(self._least_s, self._pauses.pause_s(self.failures))
        self.failures += 1
        self._start_at_s = now_s + pause_s
        return pause_s
