"""How many calls a second a target gets: a token bucket, with moments passed in."""

from dataclasses import dataclass, field

EMPTY_S = 1e-9  # a wait that rounding makes out of nothing


@dataclass(slots=True)
class Bucket:
    """Give at most `burst` at once, and `per_s` a second in the long run; None: without a limit.

    units:   moments are of a monotonic clock, in seconds
    """

    per_s: float | None
    burst: int = 1
    _tokens: float = field(init=False)
    _filled_at_s: float = field(default=float("-inf"), init=False)

    def __post_init__(self) -> None:
        """Begin full."""
        assert self.per_s is None or self.per_s > 0
        assert self.burst >= 1
        self._tokens = float(self.burst)

    def room(self, now_s: float) -> float:
        """Say how many may be taken now; infinite without a limit."""
        if self.per_s is None:
            return float("inf")
        return float(int(self._fill(now_s) + EMPTY_S))

    def take(self, now_s: float, count: int = 1) -> None:
        """Take some; the bucket may owe some, if more were taken than it had room for."""
        if self.per_s is not None:
            self._fill(now_s)
            self._tokens -= count

    def put_back(self, count: int = 1) -> None:
        """Put back what was taken for calls that did not begin."""
        if self.per_s is not None:
            self._tokens = min(float(self.burst), self._tokens + count)

    def is_full(self, now_s: float) -> bool:
        """Say whether it gives no more than a new one would."""
        return self.per_s is None or self._fill(now_s) >= self.burst

    def next_at_s(self, now_s: float) -> float:
        """Return the moment from which one may be taken."""
        if self.per_s is None:
            return now_s
        return now_s + max(0.0, (1.0 - self._fill(now_s)) / self.per_s)

    def _fill(self, now_s: float) -> float:
        assert self.per_s is not None
        if now_s > self._filled_at_s:
            self._tokens = min(float(self.burst), self._tokens + (now_s - self._filled_at_s) * self.per_s)
            self._filled_at_s = now_s
        return self._tokens
