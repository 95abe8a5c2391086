"""How much one tenant may ask for: so many writes a second, and for a moment more.

Each gateway counts by itself, so a tenant that asks all of them gets as many times as much.
"""

import time
from collections.abc import Callable
from math import ceil

from shardclock_server.gateway.requests.problems import TOO_MANY, Problem
from shardclock_server.timers.refusal import shortened

BURST_S = 2.0  # worth of writes may come at once
DEBT_S = 60.0  # worth of writes, at most, is paid for later
TENANTS_MAX = 10_000


def _may_write(per_s: float) -> str:
    return f"may write {per_s:g} a second here"


class RateLimits:
    """Count writes by tenant, as the moment at which its allowance covers them (GCRA).

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
        self._used: dict[str, tuple[float, float]] = {}  # by tenant: until when, at which rate

    def take(self, tenant_id: str, per_s: float | None, count: int = 1) -> None:
        """Take some for a tenant; more than a burst at once is taken only by one who has taken nothing lately.

        units:   `per_s` writes a second; None: without a limit
        errors:  Problem  it has taken too much; it says when to ask again
        """
        if per_s is None:
            return
        now_s = self._clock()
        ahead_s = self._ahead_s(tenant_id, per_s, now_s)
        if ahead_s and ahead_s + count / per_s > self._burst_s:
            wait_s = ceil(min(ahead_s, ahead_s + count / per_s - self._burst_s))
            raise Problem(
                TOO_MANY,
                f"tenant {shortened(tenant_id)} {self._rule(per_s)}; ask again in {wait_s} s",
                headers={"Retry-After": str(wait_s)},
            )
        if len(self._used) >= TENANTS_MAX:
            self._used = {tenant: used for tenant, used in self._used.items() if used[0] > now_s}
        self._used[tenant_id] = now_s + self._bounded_s(per_s, ahead_s + count / per_s), per_s

    def give_back(self, tenant_id: str, per_s: float | None, count: int, *, of: int) -> None:
        """Give some of the writes back that were taken at once, because they did not take place."""
        if per_s is None or tenant_id not in self._used:
            return
        now_s = self._clock()
        kept_s = self._bounded_s(per_s, of / per_s) - self._bounded_s(per_s, (of - count) / per_s)
        self._used[tenant_id] = now_s + max(0.0, self._ahead_s(tenant_id, per_s, now_s) - kept_s), per_s

    def _ahead_s(self, tenant_id: str, per_s: float, now_s: float) -> float:
        """Return how long a tenant's rate is used up, also if that was another rate when it took its writes."""
        until_s, at_per_s = self._used.get(tenant_id, (now_s, per_s))
        return self._bounded_s(per_s, max(0.0, until_s - now_s) * at_per_s / per_s)

    def _bounded_s(self, per_s: float, ahead_s: float) -> float:
        return min(ahead_s, max(self._debt_s, 1 / per_s))
