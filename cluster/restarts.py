"""When a process of ours that has failed is started again: at once at first, and later after each start that failed."""

import time

from shardclock.backoff import Backoff

STEADY_S = 60.0  # a process that lived this long did not fail to start


class Restarts:
    """Say when a process may be started, from when it was started and when it failed."""

    def __init__(self, pauses: Backoff) -> None:
        self._pauses = pauses
        self.failures = 0  # one after the other, none of them after a start that succeeded
        self._start_at_s = 0.0
        self.started_at_s = 0.0

    @property
    def is_due(self) -> bool:
        """Say whether the pause before the next start is over."""
        return time.monotonic() >= self._start_at_s

    def begin(self) -> None:
        """Take note that the process is started now."""
        self.started_at_s = time.monotonic()

    def fail(self, *, was_ready: bool = True) -> float:
        """Take note that it has died, or can't be started; return how many seconds its next start must wait.

        One that was never ready has failed to start, however long it lived.
        """
        now_s = time.monotonic()
        if was_ready and now_s - self.started_at_s > STEADY_S:
            self.failures = 0
        pause_s = self._pauses.pause_s(self.failures)
        self.failures += 1
        self._start_at_s = now_s + pause_s
        return pause_s
