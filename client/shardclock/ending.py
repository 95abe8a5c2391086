"""Pass the moment at which the current call must end to the client of the HTTP API, which retries only until then.

Without this moment, a handler whose gateway is away would end by its timeout, and the recorded reason would not name
the gateway.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic

RESERVE_S_MAX = 1.0  # The handler's own code gets this time to handle the error before the timeout.
RESERVE_SHARE = 0.25

# The moments on the monotonic clock after which the call makes no more retries, and at which the call ends.
_ends: ContextVar[tuple[float, float] | None] = ContextVar("ends", default=None)


@contextmanager
def ending_in(timeout_s: float) -> Iterator[None]:
    """Limit the retries in this block: the block must end within `timeout_s`."""
    ends_at_s = monotonic() + timeout_s
    before = _ends.set((ends_at_s - min(RESERVE_S_MAX, RESERVE_SHARE * timeout_s), ends_at_s))
    try:
        yield
    finally:
        _ends.reset(before)


def retry_s_left() -> float:
    """Return the time in which the current call may still begin a retry.

    shape:   infinite outside a call, and in a task that lives longer than its call
    units:   seconds; negative during the last second of the call, at most its last quarter
    """
    return _left(0)


def answer_s_left() -> float:
    """Return the longest time in which the current call may wait for one answer.

    shape:   infinite outside a call, and in a task that lives longer than its call
    units:   seconds, above 0
    """
    left_s = _left(0)
    return left_s if left_s > 0 else _left(1)


def _left(which: int) -> float:
    ends, now_s = _ends.get(), monotonic()
    return math.inf if ends is None or ends[1] <= now_s else ends[which] - now_s
