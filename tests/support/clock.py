"""A clock that a test moves, in place of the monotonic clock."""

from __future__ import annotations


class Clock:
    """Replace `time.monotonic`, or the module `time` in a module that reads only `time.monotonic`."""

    def __init__(self, now_s: float = 1_000.0) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s

    def monotonic(self) -> float:
        return self.now_s
