"""Limit concurrent callers in total and for each tenant. If no slot is free, a caller is refused immediately."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from shardclock.api.codes import OVER_QUOTA
from shardclock_server.gateway.requests.problems import RETRY_AFTER_S, Problem, unavailable
from shardclock_server.timers.refusal import shortened

# A tenant may have at most three times as many slots as are free. So a single tenant gets three quarters of all slots,
# and each of two tenants gets three sevenths. Some slots stay free for any number of tenants. Network switches share
# their buffers by the same rule ("dynamic threshold").
PER_FREE = 3


def is_within_share(own: int, free: int) -> bool:
    """Return whether a tenant with `own` slots may take another slot, while `free` slots are left."""
    return own < PER_FREE * free


class ConcurrencyLimit:
    """A limited number of slots for one kind of request, counted by tenant.

    A refusal contains the texts `doing` and `way_out`, such as "wait here" and "ask without wait". Each slot also
    takes a slot of the limit `within`. With `closes`, a refusal also closes the connection, so that refused callers
    leave the connections to other callers.
    """

    def __init__(
        self, most: int, *, doing: str, way_out: str, within: "ConcurrencyLimit | None" = None, closes: bool = False
    ) -> None:
        self.most: int = most if within is None else min(most, within.most)
        self._within = within
        self._closing = {"Connection": "close"} if closes or within is not None else {}
        self.in_use = 0
        self._by_tenant: Counter[str] = Counter()
        self._doing = doing
        self._way_out = way_out

    @property
    def is_full(self) -> bool:
        """Whether no slot is free."""
        return self.in_use >= self.most

    def acquire(self, tenant_id: str) -> None:
        """Acquire a slot for a tenant.

        errors:  Problem  no slot is free for the tenant; the problem says when to retry
        """
        self._require(tenant_id)
        if self._within is not None:
            self._within.acquire(tenant_id)
        self.in_use += 1
        self._by_tenant[tenant_id] += 1

    def release(self, tenant_id: str) -> None:
        """Free one slot of a tenant."""
        if self._within is not None:
            self._within.release(tenant_id)
        self.in_use -= 1
        self._by_tenant[tenant_id] -= 1
        if not self._by_tenant[tenant_id]:
            del self._by_tenant[tenant_id]

    def _require(self, tenant_id: str) -> None:
        if self.is_full:
            full = unavailable(f"{self.most:,} {self._doing} already; {self._way_out}")
            full.headers |= self._closing
            raise full
        own = self._by_tenant[tenant_id]
        if not is_within_share(own, self.most - self.in_use):
            raise Problem(
                OVER_QUOTA,
                f"{own:,} of tenant {shortened(tenant_id)} {self._doing} already, the most for one tenant: the rest"
                f" of the {self.most:,} slots is for other tenants; {self._way_out}",
                headers={"Retry-After": str(RETRY_AFTER_S), **self._closing},
                quota="slots",
                limit=own,
            )

    @contextmanager
    def slot(self, tenant_id: str) -> Iterator[None]:
        """Acquire a slot for the time of a `with` block.

        errors:  Problem as in `acquire`
        """
        self.acquire(tenant_id)
        try:
            yield
        finally:
            self.release(tenant_id)
