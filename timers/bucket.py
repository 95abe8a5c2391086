"""A rate limiter with bursts; the caller passes the time."""

from dataclasses import dataclass

EMPTY = 1e-9  # the largest rounding error, in units


@dataclass(slots=True)
class Bucket:
    """Allow `per_s` units a second on average, and bursts of at most `burst` units (GCRA); None: no limit.

    The only state is the moment at which the bucket is full. A caller may take more units than `available` returns. The
    excess is a debt. The debt is limited to the units of `debt_s` seconds, or to one unit if a unit takes longer.

    units:   moments are seconds of a monotonic clock
    """

    per_s: float | None
    burst: float = 1
    debt_s: float = float("inf")
    _full_at_s: float = float("-inf")

    def __post_init__(self) -> None:
        """Reject a rate of zero or less."""
        assert self.per_s is None or self.per_s > 0

    def refill_s(self, now_s: float) -> float:
        """Return the seconds until the bucket is full; 0: the bucket is full."""
        return max(0.0, self._full_at_s - now_s)

    def available(self, now_s: float) -> float:
        """Return the number of free units: infinite without a limit, negative for a debt."""
        if self.per_s is None:
            return float("inf")
        return float(int(self.burst - self.refill_s(now_s) * self.per_s + EMPTY))

    def take(self, now_s: float, count: float = 1) -> None:
        """Take `count` units, even if fewer units are free."""
        if self.per_s is not None:
            self._set_refill(now_s, self.refill_s(now_s) + count / self.per_s)

    def refund(self, count: float = 1, *, of: float | None = None) -> None:
        """Put back `count` unused units of an earlier `take` of `of` units.

        Because the debt is limited, the `take` may have taken fewer than `of` units. Units that were not taken are not
        put back.
        """
        if self.per_s is not None:
            of = count if of is None else of
            self._full_at_s -= self._bounded_s(of / self.per_s) - self._bounded_s((of - count) / self.per_s)

    def change_rate(self, per_s: float, now_s: float) -> None:
        """Change the rate; the number of used units stays the same."""
        assert self.per_s is not None
        if per_s != self.per_s:
            used = self.refill_s(now_s) * self.per_s
            self.per_s = per_s
            self._set_refill(now_s, used / per_s)

    def next_at_s(self, now_s: float) -> float:
        """Return the moment at which the next unit is free."""
        if self.per_s is None:
            return now_s
        return now_s + max(0.0, self.refill_s(now_s) - (self.burst - 1) / self.per_s)

    def _set_refill(self, now_s: float, refill_s: float) -> None:
        self._full_at_s = now_s + self._bounded_s(refill_s)

    def _bounded_s(self, refill_s: float) -> float:
        assert self.per_s is not None
        return min(refill_s, max(self.debt_s, 1 / self.per_s))
