"""How much one tenant may ask for: so many writes a second, and for a moment more.

Each gateway counts by itself, so a tenant that asks all of them gets as many times as much.
"""

import time
from collections.abc import Callable
from math import ceil

from shardclock_server.gateway.requests.problems import TOO_MANY, Problem
from shardclock_server.timers.bucket import Bucket
from shardclock_server.timers.refusal import shortened

BURST_S = 2.0  # worth of writes may come at once
DEBT_S = 60.0  # worth of writes, at most, is paid for later
TENANTS_MAX = 10_000


def _may_write(per_s: float) -> str:
    return f"may write {per_s:g} a second here"


class RateLimits:
    """Count the writes of each tenant in a bucket of its own.

    The allowance of `burst_s` may be used at once; `rule` is the limit's wording in a refusal. A wait is at
    most `debt_s`, a burst, or the time of one write.
    """

    def __init__(
        self,
        *,
        burst_s: float = BURST_S,
        debt_s: float = DEBT_S,
        rule: Callable[[float], str] = _may_write,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._burst_s = burst_s
        self._debt_s = max(debt_s, burst_s)
        self._rule = rule
        self._clock = clock
        self._buckets: dict[str, Bucket] = {}

    def take(self, tenant_id: str, per_s: float | None, count: int = 1) -> None:
        """Take some for a tenant; more than a burst at once is taken only by one who has taken nothing lately.

        units:   `per_s` writes a second; None: without a limit
        errors:  Problem  it has taken too much; it says when to ask again
        """
        if per_s is None:
            return
        now_s = self._clock()
        bucket = self._bucket_of(tenant_id, per_s, now_s)
        used_s = bucket.used_s(now_s)
        if used_s and used_s + count / per_s > self._burst_s:
            wait_s = ceil(min(used_s, used_s + count / per_s - self._burst_s))
            raise Problem(
                TOO_MANY,
                f"tenant {shortened(tenant_id)} {self._rule(per_s)}; ask again in {wait_s} s",
                headers={"Retry-After": str(wait_s)},
            )
        bucket.take(now_s, count)

    def give_back(self, tenant_id: str, per_s: float | None, count: int, *, of: int) -> None:
        """Give some of the writes back that were taken at once, because they did not take place."""
        if per_s is not None and tenant_id in self._buckets:
            self._bucket_of(tenant_id, per_s, self._clock()).put_back(count, of=of)

    def _bucket_of(self, tenant_id: str, per_s: float, now_s: float) -> Bucket:
        """Return a tenant's bucket at its rate of now, also if that was another rate when it took its writes."""
        if (bucket := self._buckets.get(tenant_id)) is not None:
            bucket.change_rate(per_s, now_s)
            return bucket
        if len(self._buckets) >= TENANTS_MAX:
            self._buckets = {tenant: it for tenant, it in self._buckets.items() if it.used_s(now_s) > 0}
        return self._buckets.setdefault(tenant_id, Bucket(per_s, debt_s=self._debt_s))
