"""Order the work of tenants by the time that they have used."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush, nlargest
from typing import TypeVar

Item = TypeVar("Item")
AHEAD_MAX = 1_000  # the largest number of tenants that are passed to one statement


class TenantScheduler:
    """Choose the tenant with the least used time. The scheduler's clock shows the used time of the last chosen tenant.

    The used time of a tenant without work falls behind the clock. When the tenant has work again, its used time is set
    to the clock, so that the tenant gets no advantage over tenants that had work.

    units:   seconds of work
    """

    def __init__(self) -> None:
        self._used_s: dict[str, float] = {}
        self._clock_s = 0.0

    def charge(self, tenant_id: str, seconds: float) -> None:
        """Add to a tenant's used time."""
        self._used_s[tenant_id] = self._of(tenant_id) + seconds

    def ahead_s(self) -> dict[str, float]:
        """Return how far each tenant's used time is ahead of the clock; tenants that are not ahead are left out."""
        self._used_s = {tenant: used for tenant, used in self._used_s.items() if used > self._clock_s}
        first = nlargest(AHEAD_MAX, self._used_s.items(), key=lambda it: it[1])
        return {tenant: used - self._clock_s for tenant, used in first}

    def in_turn(self, waiting: Mapping[str, Sequence[Item]]) -> Iterator[Item]:
        """Yield all items; the next item is always of the tenant with the least used time.

        The caller charges the tenant for each item before it requests the next item.
        """
        queues = {tenant: deque(items) for tenant, items in waiting.items() if items}
        turns = [(self._of(tenant), number, tenant) for number, tenant in enumerate(queues)]
        heapify(turns)
        while turns:
            used_s, number, tenant = heappop(turns)
            self._clock_s = max(self._clock_s, used_s)
            yield queues[tenant].popleft()
            if queues[tenant]:
                heappush(turns, (self._of(tenant), number, tenant))

    def _of(self, tenant_id: str) -> float:
        return max(self._used_s.get(tenant_id, 0.0), self._clock_s)
