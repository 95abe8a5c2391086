"""Convert values to positions on an axis, and choose round values for the ticks."""

import math
from dataclasses import dataclass

from charts.units import is_binary

TIME_STEPS_S = (5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1_200, 1_800, 3_600, 7_200)
TIME_STEP_MAX_S = 14_400


@dataclass(frozen=True)
class Axis:
    """Map the values from `low` to `high` to the positions from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def place(self, value: float) -> float:
        """Return the position of a value; a value outside the axis gets the position of the nearer end."""
        share = (self._on(value) - self._on(self.low)) / ((self._on(self.high) - self._on(self.low)) or 1)
        return self.start + min(max(share, 0.0), 1.0) * (self.end - self.start)

    def ticks(self, unit: str, *, count: int = 5) -> list[float]:
        """Choose about `count` round values for ticks; powers of ten if the axis is logarithmic."""
        if self.log:
            first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
            return [t for t in (10.0**n for n in range(first, last + 1)) if self.low <= t * 1.001 and t <= self.high]
        step = _round_step((self.high - self.low) / count, binary=is_binary(unit))
        first = math.ceil(self.low / step - 1e-9)
        return [n * step for n in range(first, math.floor(self.high / step + 1e-9) + 1)]

    def time_ticks(self, count: int) -> list[int]:
        """Choose about `count` round times for ticks, in seconds after `low`."""
        length_s = self.high - self.low
        step_s = next((step_s for step_s in TIME_STEPS_S if length_s / step_s <= count), TIME_STEP_MAX_S)
        return list(range(0, int(length_s) + 1, step_s))

    def _on(self, value: float) -> float:
        return math.log10(max(value, 1e-12)) if self.log else value


def _round_step(rough: float, *, binary: bool) -> float:
    if binary and rough > 1:
        return float(2 ** math.ceil(math.log2(rough)))
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.8)
