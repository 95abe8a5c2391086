"""How long to wait before another try: longer after each failure in a row."""

import random
from dataclasses import dataclass

DOUBLINGS_MAX = 60  # a pause is at its longest long before; 2.0 ** 1024 would overflow


@dataclass(frozen=True, slots=True)
class Backoff:
    """Wait `first_s` after the first failure, twice as long after each further one in a row, and at most `max_s`."""

    first_s: float
    max_s: float

    def pause_s(self, failures: int) -> float:
        """Say how long to wait after so many failures in a row; without one, not at all."""
        if failures < 1:
            return 0.0
        return min(self.first_s * 2.0 ** min(failures - 1, DOUBLINGS_MAX), self.max_s)

    def scattered_s(self, failures: int) -> float:
        """Say it for one of many that failed together: at random from half of it on, so that they don't try at once."""
        return self.pause_s(failures) * random.uniform(0.5, 1.0)  # noqa: S311 - nobody must guess it
