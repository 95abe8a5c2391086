"""How many webhooks a worker takes in hand, of all endpoints together: so many deliveries, and bytes of their payloads.

A tenant has as many endpoints as it likes, and chooses the concurrency of each: what one endpoint takes bounds nothing.
Fixed shares would leave most of the budget unused when one tenant alone has something to send. So, as in
webhooks/turns.py, a tenant may have in hand as much as is free: one whose endpoints hang holds half, ten hold nine
tenths, and what becomes free then goes to who has less.
"""

import sys
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from shardclock_server.sql.deliveries.claim import ClaimedDelivery
from shardclock_server.timers.payload import PAYLOAD_BYTES_MAX

IN_HAND_MAX = 4_000  # of one worker; one claim may bring more
PAYLOADS_BYTES_MAX = 64 * 2**20  # of these; what is being sent is written beside it, a few hundred at a time
NEW_PLACES = 10  # taken of an endpoint of which nothing is known yet
FEW_PLACES = 1  # taken of it while less than half of the budget is free: then it is known whose it is


@dataclass(slots=True)
class Load:
    """What is in hand: how many deliveries, and the bytes of their payloads in memory."""

    deliveries: int = 0
    payload_bytes: int = 0

    def add(self, taken: Collection[ClaimedDelivery]) -> None:
        """Count deliveries that were taken."""
        self.deliveries += len(taken)
        self.payload_bytes += sum(sys.getsizeof(it.payload) for it in taken)

    def remove(self, left: Collection[ClaimedDelivery]) -> None:
        """Count deliveries no more that were taken before."""
        self.deliveries -= len(left)
        self.payload_bytes -= sum(sys.getsizeof(it.payload) for it in left)


class Budget:
    """Share what is free among tenants, by what each endpoint of theirs has in hand now."""

    def __init__(self, loads: Iterable[tuple[str, Load]]) -> None:
        self._free = Load(IN_HAND_MAX, PAYLOADS_BYTES_MAX)
        self._of_tenant: dict[str, Load] = {}
        for tenant_id, load in loads:
            of_tenant = self._of_tenant.setdefault(tenant_id, Load())
            of_tenant.deliveries += load.deliveries
            of_tenant.payload_bytes += load.payload_bytes
            self._free.deliveries -= load.deliveries
            self._free.payload_bytes -= load.payload_bytes

    @property
    def free(self) -> int:
        """Return how many more deliveries there is room for, however large the payloads of timers are."""
        return max(0, min(self._free.deliveries, self._free.payload_bytes // PAYLOAD_BYTES_MAX))

    @property
    def new_places(self) -> int:
        """Return how many deliveries are taken of an endpoint of which nothing is known yet."""
        if not self.free:
            return 0
        half = 2 * self._free.deliveries >= IN_HAND_MAX and 2 * self._free.payload_bytes >= PAYLOADS_BYTES_MAX
        return NEW_PLACES if half else FEW_PLACES

    @property
    def full_tenants(self) -> list[str]:
        """List the tenants that have their share in hand: of their endpoints that are new nothing more is taken."""
        return [tenant_id for tenant_id in self._of_tenant if not self.places(tenant_id, each_bytes=0)]

    def places(self, tenant_id: str, *, each_bytes: int) -> int:
        """Return how many more deliveries a tenant may have in hand, if each has about so many bytes.

        A payload counts as one of the largest that a timer has, at least: the next may be.
        """
        has = self._of_tenant.get(tenant_id, Load())
        number = (self._free.deliveries - has.deliveries + 1) // 2
        of_bytes = (self._free.payload_bytes - has.payload_bytes) // (2 * max(each_bytes, PAYLOAD_BYTES_MAX))
        return max(0, min(number, of_bytes))
