"""From values to places on an axis, and to words with a unit."""

import math
from dataclasses import dataclass

TIMES = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"), (0.001, "ms"), (0.000_001, "µs"))
THOUSANDS = ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k"), (1, ""))
BINARY = ((2**40, " TiB"), (2**30, " GiB"), (2**20, " MiB"), (2**10, " KiB"), (1, " B"))


def words(value: float, unit: str, *, digits: int = 3) -> str:
    """Write a value as people read it, with its unit."""
    if unit == "percentunit":
        return f"{_number(value * 100, digits)} %"
    if unit == "s":
        return _in(value, tuple((size, f" {name}") for size, name in TIMES), digits, zero="0 s")
    if unit in ("bytes", "Bps"):
        return _in(value, BINARY, digits, zero="0 B") + ("/s" if unit == "Bps" else "")
    return _in(value, THOUSANDS, digits, zero="0") + ("/s" if unit == "cps" else "")


@dataclass(frozen=True)
class Axis:
    """A stretch of values, and the stretch of the picture that they take."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def place(self, value: float) -> float:
        """Find where a value stands; one beyond the axis stands at its end."""
        share = (self._on(value) - self._on(self.low)) / ((self._on(self.high) - self._on(self.low)) or 1)
        return self.start + min(max(share, 0.0), 1.0) * (self.end - self.start)

    def ticks(self, unit: str, *, count: int = 5) -> list[float]:
        """Choose round values to mark."""
        if self.log:
            first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
            return [t for t in (10.0**n for n in range(first, last + 1)) if self.low <= t * 1.001 and t <= self.high]
        step = _round_step((self.high - self.low) / count, binary=unit in ("bytes", "Bps"))
        first = math.ceil(self.low / step - 1e-9)
        return [n * step for n in range(first, math.floor(self.high / step + 1e-9) + 1)]

    def _on(self, value: float) -> float:
        return math.log10(max(value, 1e-12)) if self.log else value


def axis_for(values: list[float], start: float, end: float, *, log: bool, from_zero: bool) -> Axis:
    """Choose an axis that holds all values, with some room above."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    if log:
        positive = [value for value in values if value > 0] or [0.01, 1.0]
        return Axis(10.0 ** math.floor(math.log10(min(positive))), max(positive) * 1.5, start, end, log=True)
    if from_zero:
        low = min(low, 0.0)
    if high <= low:
        high = low + (abs(low) * 0.1 or 1.0)
    return Axis(low, high + (high - low) * 0.08, start, end)


def _round_step(rough: float, *, binary: bool) -> float:
    if binary and rough > 1:
        return float(2 ** math.ceil(math.log2(rough)))
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.8)


def _in(value: float, sizes: tuple[tuple[float, str], ...], digits: int, *, zero: str) -> str:
    if abs(value) < sizes[-1][0] * 1e-9:
        return zero
    size, name = next((s for s in sizes if abs(value) >= s[0] * 0.9995), sizes[-1])
    return f"{_number(value / size, digits)}{name}"


def _number(value: float, digits: int) -> str:
    return f"{value:.{digits}g}" if abs(value) < 1000 else f"{value:,.0f}"
