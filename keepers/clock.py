"""Postgres's time, estimated from the round trips that are made anyway.

Every answer carries the server's clock. Postgres read that clock before the answer arrived, so on arrival the server's
time is *at least* what the answer says. The tightest of the recent answers gives a lower bound of Postgres's time: it
is behind by a fraction of a millisecond, and never ahead. Firing waits for the bound, so no timer is sent before its
due date.
"""

import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

WINDOW_S = 10.0  # older answers are forgotten, so that the bound follows a clock that NTP slows down
SAMPLES_MAX = 512

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class PostgresClock:
    """Bound Postgres's time from below."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        # A monotonic queue for the window's maximum: (received_s ascending, offset descending), the maximum first.
        self._samples: deque[tuple[float, float]] = deque(maxlen=SAMPLES_MAX)

    def observe(self, server_time: datetime, *, sent_s: float) -> None:
        """Learn from an answer that has just arrived.

        units:   sent_s in seconds of the monotonic clock
        """
        received_s = self._monotonic()
        server_s = seconds_of(server_time)
        if self._samples and self._samples[0][1] > server_s - sent_s:
            # The server read its clock after we had sent the question. If it read less than our lower bound for that
            # moment, somebody has set its clock back.
            self._samples.clear()
        offset = server_s - received_s
        while self._samples and self._samples[-1][1] <= offset:
            self._samples.pop()
        self._samples.append((received_s, offset))
        while self._samples[0][0] < received_s - WINDOW_S:
            self._samples.popleft()

    def now_s(self) -> float:
        """Return the earliest that Postgres's time can be, in seconds since 1970; 0 before the first answer."""
        return self._monotonic() + self._samples[0][1] if self._samples else 0.0

    def now(self) -> datetime:
        """Return the earliest that Postgres's time can be."""
        return _EPOCH + timedelta(seconds=self.now_s())


def seconds_of(moment: datetime) -> float:
    """Convert a moment to seconds since 1970; exact to a microsecond until the year 2242, close enough after."""
    return (moment - _EPOCH) / _MICROSECOND / 1e6
