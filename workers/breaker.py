"""Limit the concurrent attempts of an endpoint: pure decisions, with the time as an argument.

A breaker is closed while the endpoint works. The breaker opens after a number of consecutive failures, or when most
attempts of a minute fail. An open breaker pauses the endpoint; each opening doubles the pause. After the pause, single
deliveries probe the endpoint. After enough consecutive successes of probes the breaker closes, and the limit grows from
one again.

While the breaker is closed, the limit follows the endpoint's answers. The limit starts low, grows by one after each
success, and is halved after an answer that reports overload. The endpoint may ask for a pause (429 or 503 with
Retry-After). The worker also pauses the endpoint when the worker's process has no free socket or thread.
"""

from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict, Field

from shardclock.backoff import Backoff, Jitter
from shardclock_server.timers.bucket import Bucket
from shardclock_server.webhooks.answer_classification import OWN_PAUSE_S, Answer, Delivered, FaultSide, RetryDelivery

OVERLOAD = frozenset({429, 502, 503, 504})
# The shortest time between two halvings of the limit, because all answers of one burst report the same overload.
HALVE_S = 1.0


class BreakerSettings(BaseModel):
    """The limits of an endpoint's breaker."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    concurrency: int = Field(50, gt=0, description="the limit of concurrent requests of one worker")
    at_first: int = Field(5, gt=0, description="the limit of concurrent requests to a new endpoint, which may hang")
    per_s: float | None = Field(
        None, gt=0, description="the limit of requests that one worker starts per second; None: no limit"
    )
    failures_max: int = Field(5, gt=0, description="the number of consecutive failures that opens the breaker")
    window_s: float = Field(60.0, gt=0, description="the window in which failures are counted")
    share_max: float = Field(0.5, gt=0, le=1, description="the proportion of failures that opens the breaker")
    window_min: int = Field(
        20, gt=0, description="the minimum number of attempts in a window before the proportion of failures counts"
    )
    pause_s: float = Field(5.0, gt=0, description="the first pause, which doubles each time")
    pause_max_s: float = Field(
        300.0, gt=0, description="the longest pause; a recovered endpoint may get no request during this time"
    )
    successes: int = Field(2, gt=0, description="the number of successful probes that closes the breaker")


@dataclass(slots=True)
class Breaker:
    """Count one endpoint's attempts, and return how many more attempts may start.

    Each time the breaker opens or closes, a new term starts. Each attempt has the number of its term, so a late answer
    can't change the state of a later term.

    units:   seconds of a monotonic clock
    """

    settings: BreakerSettings
    jitter: Jitter
    in_flight: int = 0
    is_open: bool = False
    _term: int = 0
    _opened_times: int = 0
    _failures: int = 0
    _successes: int = 0  # The number of consecutive successful probes.
    _probes: int = 0  # The probes in flight.
    _limit: float = field(init=False)
    _bucket: Bucket = field(init=False)
    _window: "_Window" = field(init=False)
    _open_until_s: float = float("-inf")
    _held_until_s: float = float("-inf")
    _halved_at_s: float = float("-inf")

    def __post_init__(self) -> None:
        """Create a closed breaker with a low limit."""
        self._limit = float(min(self.settings.at_first, self.settings.concurrency))
        self._bucket = Bucket(self.settings.per_s, burst=max(1, int(self.settings.per_s or 1)))
        self._window = _Window()

    def limit(self, now_s: float) -> int:
        """Return how many attempts may be in flight concurrently: none in a pause, one while the breaker is open."""
        if now_s < max(self._held_until_s, self._open_until_s):
            return 0
        return 1 if self.is_open else int(self._limit)

    def places(self, now_s: float) -> int:
        """Return how many attempts may start now."""
        free = self.limit(now_s) - (self._probes if self.is_open else self.in_flight)
        return max(0, int(min(free, self._bucket.available(now_s))))

    def next_at_s(self, now_s: float) -> float:
        """Return the earliest moment for the next attempt; assume that all attempts in flight have ended by then."""
        return max(now_s, self._held_until_s, self._open_until_s, self._bucket.next_at_s(now_s))

    def is_rate_used(self, now_s: float) -> bool:
        """Return whether recent attempts have used up a part of the rate limit."""
        return self._bucket.refill_s(now_s) > 0

    def begin(self, now_s: float) -> int:
        """Count the start of an attempt, and return the attempt's term."""
        self._bucket.take(now_s)
        self.in_flight += 1
        self._probes += self.is_open
        return self._term

    def end(self, term: int, answer: Answer | None, now_s: float) -> None:
        """Record the answer to an attempt; None: the attempt ended without an answer."""
        self.in_flight -= 1
        self._hold(answer, now_s)
        if term != self._term:
            return
        self._probes -= self.is_open
        match answer:
            case None | RetryDelivery(fault=FaultSide.SENDER):
                pass
            case Delivered() | RetryDelivery(fault=FaultSide.DELIVERY):
                self._succeed(now_s)
            case _:
                self._fail(answer, now_s)

    def _succeed(self, now_s: float) -> None:
        self._failures = 0
        self._successes += 1
        self._limit = min(float(self.settings.concurrency), self._limit + 1.0)
        self._window.count(now_s, self.settings.window_s, failed=False)
        if self.is_open and self._successes >= self.settings.successes:
            self._begin_term(is_open=False)
            self._limit = 1.0
            self._opened_times = 0

    def _fail(self, answer: Answer, now_s: float) -> None:
        self._failures += 1
        self._successes = 0
        self._window.count(now_s, self.settings.window_s, failed=True)
        if isinstance(answer, RetryDelivery) and answer.status in OVERLOAD and now_s >= self._halved_at_s + HALVE_S:
            self._limit = max(1.0, self._limit / 2)
            self._halved_at_s = now_s
        if self.is_open or self._failures >= self.settings.failures_max or self._window.is_bad(self.settings):
            self._open(now_s)

    def _open(self, now_s: float) -> None:
        self._opened_times += 1
        longest_s = Backoff(self.settings.pause_s, self.settings.pause_max_s).pause_s(self._opened_times)
        # Jitter of 50 %, so that the probes of endpoints on the same host do not all start at the same moment.
        self._open_until_s = now_s + self.jitter(longest_s / 2, longest_s)
        self._begin_term(is_open=True)

    def _begin_term(self, *, is_open: bool) -> None:
        self.is_open = is_open
        self._term += 1
        self._failures = self._successes = self._probes = 0
        self._window = _Window()

    def _hold(self, answer: Answer | None, now_s: float) -> None:
        if not isinstance(answer, RetryDelivery):
            return
        hold_s = OWN_PAUSE_S if answer.hold_s is None and answer.fault is FaultSide.SENDER else answer.hold_s
        if hold_s is not None:
            self._held_until_s = max(self._held_until_s, now_s + hold_s)


@dataclass(slots=True)
class _Window:
    """Count attempts and failures since the window began."""

    began_s: float = float("-inf")
    attempts: int = 0
    failures: int = 0

    def count(self, now_s: float, window_s: float, *, failed: bool) -> None:
        if now_s >= self.began_s + window_s:
            self.began_s, self.attempts, self.failures = now_s, 0, 0
        self.attempts += 1
        self.failures += failed

    def is_bad(self, settings: BreakerSettings) -> bool:
        return self.attempts >= settings.window_min and self.failures >= settings.share_max * self.attempts
