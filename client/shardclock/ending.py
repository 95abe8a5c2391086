"""Limit the retries of the HTTP client to the time that the current call of a handler has left.

Without this limit, a handler that can't reach the gateway would exceed its timeout, and the recorded reason would be
the timeout instead of the gateway.
"""

import math
from contextvars import ContextVar, Token
from time import monotonic

RESERVE_S_MAX = 1.0  # The handler's own code gets this time to handle the error before the timeout.
RESERVE_SHARE = 0.25

# The end of the current call on the monotonic clock, and the length of the last part of this call. In the last part, no
# retry starts.
_end: ContextVar[tuple[float, float] | None] = ContextVar("end", default=None)


class EndingIn:
    """Limit the retries in a `with` block, so that the block ends within `timeout_s`.

    This is a class and not a generator, because a class is faster, and each call of a handler enters this block.
    """

    __slots__ = ("_timeout_s", "_token")

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._token: Token[tuple[float, float] | None]

    def __enter__(self) -> None:
        self._token = _end.set((monotonic() + self._timeout_s, min(RESERVE_S_MAX, RESERVE_SHARE * self._timeout_s)))

    def __exit__(self, *_: object) -> None:
        _end.reset(self._token)


def retry_s_left() -> float:
    """Return the time in which the current call may still start a retry.

    shape:   infinite outside a call, and in a task that outlives its call
    units:   seconds; negative in the last second of the call or, if that is shorter, in the last quarter of the call
    """
    left_s, reserve_s = _left()
    return left_s - reserve_s


def answer_s_left() -> float:
    """Return the longest time in which the current call may wait for one answer.

    shape:   infinite outside a call, and in a task that outlives its call
    units:   seconds, above 0
    """
    left_s, reserve_s = _left()
    return left_s - reserve_s if left_s > reserve_s else left_s


def _left() -> tuple[float, float]:
    end, now_s = _end.get(), monotonic()
    return (math.inf, 0.0) if end is None or end[0] <= now_s else (end[0] - now_s, end[1])
