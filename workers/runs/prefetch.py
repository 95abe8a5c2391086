"""Start more runs than there are free processes, while runs are short (pure).

A SQL statement that starts or ends one run costs nearly as much as a statement for ten runs. While runs are shorter
than these statements, a worker starts additional runs, which then wait for the next free processes. These runs are
called runs ahead.
"""

from collections import deque

SHORT_RUN_S = 0.02  # The duration below which a run counts as short.
# A short run allows one run ahead for this time after its end. A run ahead waits for a process about this long. The
# time is longer than a turn of the runner's loop, which writes ends before it polls.
COUNTED_S = 0.05
PAUSE_S = 10.0  # the time without runs ahead, after a run ahead has got no process in time


class Prefetch:
    """Allow one run ahead for each short run of the last 50 ms, because each short run frees a process soon.

    units:   seconds of the monotonic clock
    """

    def __init__(self, most: int) -> None:
        self._ended_s: deque[float] = deque(maxlen=most)
        self._again_s = float("-inf")

    def runs_max(self, now_s: float) -> int:
        """Return how many runs may start now without a free process."""
        if now_s < self._again_s:
            return 0
        while self._ended_s and self._ended_s[0] <= now_s - COUNTED_S:
            self._ended_s.popleft()
        return len(self._ended_s)

    def record(self, took_s: float, *, now_s: float) -> None:
        """Record the duration of a run that ends now."""
        if took_s < SHORT_RUN_S:
            self._ended_s.append(now_s)

    def stop(self, now_s: float) -> None:
        """Allow no run ahead for PAUSE_S seconds, because a run ahead got no process in time."""
        self._again_s = now_s + PAUSE_S
