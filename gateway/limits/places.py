"""Places for so many callers at once, with a share for each tenant; a caller that finds none is refused at once."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from shardclock_server.gateway.requests.problems import OVER_QUOTA, RETRY_AFTER_S, Problem, unavailable
from shardclock_server.timers.refusal import shortened

# A tenant may hold so many times as many places as are free: three quarters of all if it is alone, three sevenths if
# two tenants take all they can. So some places are free however many tenants do. Switches share their buffers so.
PER_FREE = 3


def is_within_share(own: int, free: int) -> bool:
    """Say whether a tenant that holds `own` of a bounded resource may hold more, while `free` of it is left."""
    return own < PER_FREE * free


class Places:
    """Count which tenants have places, and know how many there are.

    `doing` and `way_out` are parts of the refusing sentence, such as "wait here" and "ask without wait". Each place is
    also one of those that it is `within`. If a place keeps a connection, a refusal `closes` it, so that refused callers
    hold no connections that others could have.
    """

    def __init__(
        self, most: int, *, doing: str, way_out: str, within: "Places | None" = None, closes: bool = False
    ) -> None:
        self.most: int = most if within is None else min(most, within.most)
        self._within = within
        self._closing = {"Connection": "close"} if closes or within is not None else {}
        self.taken = 0
        self._by_tenant: Counter[str] = Counter()
        self._doing = doing
        self._way_out = way_out

    @property
    def is_full(self) -> bool:
        """Say whether no place is free."""
        return self.taken >= self.most

    def taken_by(self, tenant_id: str) -> int:
        """Count a tenant's places."""
        return self._by_tenant[tenant_id]

    def take(self, tenant_id: str) -> None:
        """Take a place for a tenant.

        errors:  Problem  none is free, or the tenant has its share; it says when to ask again
        """
        self._require(tenant_id)
        if self._within is not None:
            self._within.take(tenant_id)
        self.taken += 1
        self._by_tenant[tenant_id] += 1

    def leave(self, tenant_id: str) -> None:
        """Leave a tenant's place to others."""
        if self._within is not None:
            self._within.leave(tenant_id)
        self.taken -= 1
        self._by_tenant[tenant_id] -= 1
        if not self._by_tenant[tenant_id]:
            del self._by_tenant[tenant_id]

    def _require(self, tenant_id: str) -> None:
        if self.is_full:
            full = unavailable(f"{self.most:,} {self._doing} already; {self._way_out}")
            full.headers |= self._closing
            raise full
        own = self._by_tenant[tenant_id]
        if not is_within_share(own, self.most - self.taken):
            raise Problem(
                OVER_QUOTA,
                f"{own:,} of tenant {shortened(tenant_id)} {self._doing} already, its share of {self.most:,} places"
                f" while others may want one; {self._way_out}",
                headers={"Retry-After": str(RETRY_AFTER_S), **self._closing},
                quota="places",
                limit=own,
            )

    @contextmanager
    def one(self, tenant_id: str) -> Iterator[None]:
        """Have a place during a block.

        errors:  Problem  as of `take`
        """
        self.take(tenant_id)
        try:
            yield
        finally:
            self.leave(tenant_id)
