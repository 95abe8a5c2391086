"""How many a second: a rate limit with a burst, with moments passed in."""

from dataclasses import dataclass

EMPTY = 1e-9  # a shortage that rounding makes


@dataclass(slots=True)
class Bucket:
    """Give at most `burst` at once, and `per_s` a second in the long run (GCRA); None: without a limit.

    The only state is the moment until which the rate is used up. More may be taken than there is room for. Of that, at
    most `debt_s` seconds of the rate are owed, or a single one if that takes longer.

    units:   moments are of a monotonic clock, in seconds
    """

    per_s: float | None
    burst: float = 1
    debt_s: float = float("inf")
    _used_until_s: float = float("-inf")

    def __post_init__(self) -> None:
        """Refuse a rate that gives nothing."""
        assert self.per_s is None or self.per_s > 0

    def used_s(self, now_s: float) -> float:
        """Return for how long from now on the rate is used up; 0: no bucket gives more than this one."""
        return max(0.0, self._used_until_s - now_s)

    def room(self, now_s: float) -> float:
        """Return how many may be taken now; infinite without a limit, negative if some are owed."""
        if self.per_s is None:
            return float("inf")
        return float(int(self.burst - self.used_s(now_s) * self.per_s + EMPTY))

    def take(self, now_s: float, count: float = 1) -> None:
        """Take some, also more than there is room for."""
        if self.per_s is not None:
            self._use_up(now_s, self.used_s(now_s) + count / self.per_s)

    def put_back(self, count: float = 1, *, of: float | None = None) -> None:
        """Put back some that were not used; `of` is how many were taken at once, some of which may not be owed."""
        if self.per_s is not None:
            of = count if of is None else of
            self._used_until_s -= self._owed_s(of / self.per_s) - self._owed_s((of - count) / self.per_s)

    def change_rate(self, per_s: float, now_s: float) -> None:
        """Go on with another rate, by which the same number is used up."""
        assert self.per_s is not None
        if per_s != self.per_s:
            used = self.used_s(now_s) * self.per_s
            self.per_s = per_s
            self._use_up(now_s, used / per_s)

    def next_at_s(self, now_s: float) -> float:
        """Return the moment from which one may be taken."""
        if self.per_s is None:
            return now_s
        return now_s + max(0.0, self.used_s(now_s) - (self.burst - 1) / self.per_s)

    def _use_up(self, now_s: float, used_s: float) -> None:
        self._used_until_s = now_s + self._owed_s(used_s)

    def _owed_s(self, used_s: float) -> float:
        assert self.per_s is not None
        return min(used_s, max(self.debt_s, 1 / self.per_s))
