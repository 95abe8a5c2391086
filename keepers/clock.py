"""Estimate Postgres's time from the responses to all statements.

Each response of Postgres contains the server's time. Postgres reads its clock before it sends the response. So when the
response arrives, the server's clock shows *at least* the time in the response. The fastest recent response gives a
lower bound of Postgres's time. The bound is a fraction of a millisecond behind Postgres's time, and never ahead of
Postgres's time. A shard fires a timer only when the bound has reached the due date, so no timer fires early.
"""

import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

WINDOW_S = 10.0  # older responses are dropped, so that the lower bound stays correct if NTP slows Postgres's clock down
SAMPLES_MAX = 512

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class PostgresClock:
    """A lower bound of Postgres's time."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        # A monotonic queue of (received_s, offset): received_s ascends and offset descends, so the first entry has the
        # largest offset of the window.
        self._samples: deque[tuple[float, float]] = deque(maxlen=SAMPLES_MAX)

    def observe(self, server_time: datetime, *, sent_s: float) -> None:
        """Update the bound from a response that has just arrived.

        units:   sent_s in seconds of the monotonic clock
        """
        received_s = self._monotonic()
        server_s = seconds_of(server_time)
        if self._samples and self._samples[0][1] > server_s - sent_s:
            # The server read its clock after this process had sent the statement. If the server's time is below the
            # lower bound at the moment of sending, the server's clock was set back.
            self._samples.clear()
        offset = server_s - received_s
        while self._samples and self._samples[-1][1] <= offset:
            self._samples.pop()
        self._samples.append((received_s, offset))
        while self._samples[0][0] < received_s - WINDOW_S:
            self._samples.popleft()

    def now_s(self) -> float:
        """Return the lower bound of Postgres's time, in seconds since 1970; 0 before the first response."""
        return self._monotonic() + self._samples[0][1] if self._samples else 0.0

    def now(self) -> datetime:
        """Return the lower bound of Postgres's time."""
        return _EPOCH + timedelta(seconds=self.now_s())


def seconds_of(moment: datetime) -> float:
    """Convert a moment to seconds since 1970, with a precision of a microsecond until the year 2242."""
    return (moment - _EPOCH) / _MICROSECOND / 1e6
