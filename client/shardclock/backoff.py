"""The pause before the next retry; each further failure in a row makes the pause longer."""

import random
from collections.abc import Callable
from dataclasses import dataclass

DOUBLINGS_MAX = 60  # a limit, because 2.0 ** 1024 would overflow; the pause reaches its maximum much earlier

Jitter = Callable[[float, float], float]  # draws a number between two bounds, as `random.uniform` does


@dataclass(frozen=True, slots=True)
class Backoff:
    """Wait `first_s` after the first failure; double the wait after each further failure in a row, up to `max_s`."""

    first_s: float
    max_s: float

    def pause_s(self, failures: int) -> float:
        """Return the pause after this number of failures in a row; 0 without a failure."""
        if failures < 1:
            return 0.0
        return min(self.first_s * 2.0 ** min(failures - 1, DOUBLINGS_MAX), self.max_s)

    def scattered_s(self, failures: int) -> float:
        """Return the same pause with 50 % jitter, so that callers that failed together don't retry together."""
        return self.pause_s(failures) * random.uniform(0.5, 1.0)  # noqa: S311 - jitter is not a secret
