"""Limit the rate of one tenant's writes, with a burst.

Each gateway counts separately, so a tenant that uses N gateways gets N times the rate.
"""

import time
from collections.abc import Callable
from math import ceil

from shardclock.api.codes import TOO_MANY
from shardclock_server.gateway.requests.problems import Problem
from shardclock_server.timers.bucket import Bucket
from shardclock_server.timers.refusal import shortened

BURST_S = 2.0  # The burst: a tenant may use the rate of this many seconds in one moment.
DEBT_S = 60.0  # One request may use the rate of at most this many future seconds.
TENANTS_MAX = 10_000


def _write_rule(per_s: float) -> str:
    return f"may write {per_s:g} a second here"


class RateLimits:
    """Count the writes of each tenant in a token bucket.

    One burst may use the writes of `burst_s` seconds; `rule` writes the limit for the message of a refusal. A tenant
    waits for at most the longest of `debt_s`, `burst_s` and the time of one write.
    """

    def __init__(
        self,
        *,
        burst_s: float = BURST_S,
        debt_s: float = DEBT_S,
        rule: Callable[[float], str] = _write_rule,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._burst_s = burst_s
        self._debt_s = max(debt_s, burst_s)
        self._rule = rule
        self._clock = clock
        self._buckets: dict[str, Bucket] = {}

    def take(self, tenant_id: str, per_s: float | None, count: int = 1) -> None:
        """Subtract writes from a tenant's bucket. If the bucket is full, it grants any number of writes, even more than
        it holds.

        units:   `per_s` writes a second; None: without a limit
        errors:  Problem  the tenant exceeds its rate limit; the problem says when to retry
        """
        if per_s is None:
            return
        now_s = self._clock()
        bucket = self._bucket_of(tenant_id, per_s, now_s)
        refill_s = bucket.refill_s(now_s)
        if refill_s and refill_s + count / per_s > self._burst_s:
            wait_s = ceil(min(refill_s, refill_s + count / per_s - self._burst_s))
            raise Problem(
                TOO_MANY,
                f"tenant {shortened(tenant_id)} {self._rule(per_s)}; ask again in {wait_s} s",
                headers={"Retry-After": str(wait_s)},
            )
        bucket.take(now_s, count)

    def give_back(self, tenant_id: str, per_s: float | None, count: int, *, of: int) -> None:
        """Add writes back to the bucket, because the writes were not made."""
        if per_s is not None and tenant_id in self._buckets:
            self._bucket_of(tenant_id, per_s, self._clock()).refund(count, of=of)

    def _bucket_of(self, tenant_id: str, per_s: float, now_s: float) -> Bucket:
        """Return a tenant's bucket at its present rate, which may have changed since its last write."""
        if (bucket := self._buckets.get(tenant_id)) is not None:
            bucket.change_rate(per_s, now_s)
            return bucket
        if len(self._buckets) >= TENANTS_MAX:
            self._buckets = {tenant: it for tenant, it in self._buckets.items() if it.refill_s(now_s) > 0}
        return self._buckets.setdefault(tenant_id, Bucket(per_s, debt_s=self._debt_s))
