"""How much one tenant may ask for: so many writes a second, and for a moment more.

Each gateway counts by itself, so a tenant that asks all of them gets as many times as much.
"""

import time
from collections.abc import Callable
from math import ceil

from gateway.requests.problems import TOO_MANY, Problem
from timers.refusal import shortened

BURST_S = 2.0  # worth of writes may come at once
TENANTS_MAX = 10_000


def _may_write(per_s: float) -> str:
    return f"may write {per_s:g} a second here"


class RateLimits:
    """Count writes by tenant: by when the tenant will have used up what it has taken (GCRA).

    `burst_s` is the length of time whose writes may come at once; `rule` says in a refusal what a tenant may do.
    """

    def __init__(
        self,
        *,
        burst_s: float = BURST_S,
        rule: Callable[[float], str] = _may_write,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._burst_s = burst_s
        self._rule = rule
        self._clock = clock
        self._used_until_s: dict[str, float] = {}

    def take(self, tenant_id: str, per_s: float | None, count: int = 1) -> None:
        """Take some for a tenant; more than a burst at once is taken only by one who has taken nothing lately.

        units:   `per_s` writes a second; None: without a limit
        errors:  Problem  it has taken too much; it says when to ask again
        """
        if per_s is None:
            return
        now_s = self._clock()
        begun_s = max(now_s, self._used_until_s.get(tenant_id, now_s))
        ahead_s = begun_s - now_s
        if ahead_s and ahead_s + count / per_s > self._burst_s:
            wait_s = ceil(min(ahead_s, ahead_s + count / per_s - self._burst_s))
            raise Problem(
                TOO_MANY,
                f"tenant {shortened(tenant_id)} {self._rule(per_s)}; ask again in {wait_s} s",
                headers={"Retry-After": str(wait_s)},
            )
        if len(self._used_until_s) >= TENANTS_MAX:
            self._used_until_s = {tenant: until_s for tenant, until_s in self._used_until_s.items() if until_s > now_s}
        self._used_until_s[tenant_id] = begun_s + count / per_s
