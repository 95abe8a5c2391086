"""Limit the number and the payload bytes of the webhooks in a worker's memory, for all endpoints together.

A limit for each endpoint would not limit a tenant, because a tenant chooses the number of its endpoints. Fixed shares
would leave most of the budget unused while only one tenant sends. So the limit of a tenant is dynamic, as in
webhooks/fair_semaphore.py: at most as much as the free capacity. One tenant with hanging endpoints uses at most half of
the budget; ten such tenants together use about nine tenths.
"""

import sys
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from shardclock_server.sql.deliveries.claim import ClaimedDelivery
from shardclock_server.timers.payload import PAYLOAD_BYTES_MAX

DELIVERIES_MAX = 4_000  # The limit of deliveries in one worker; the last claim may exceed it.
PAYLOADS_BYTES_MAX = 64 * 2**20  # The limit of the payloads' total size; a few hundred request bodies are not counted.
NEW_PLACES = 10  # The largest number of deliveries in one claim for an endpoint without a queue.
# The same number while less than half of the budget is free. One delivery is sufficient to create the endpoint's queue.
FEW_PLACES = 1


@dataclass(slots=True)
class MemoryUsage:
    """The number of deliveries in memory, and the bytes of their payloads."""

    deliveries: int = 0
    payload_bytes: int = 0

    def add(self, added: Collection[ClaimedDelivery]) -> None:
        """Add deliveries."""
        self.deliveries += len(added)
        self.payload_bytes += sum(sys.getsizeof(it.payload) for it in added)

    def remove(self, removed: Collection[ClaimedDelivery]) -> None:
        """Subtract deliveries that were added earlier."""
        self.deliveries -= len(removed)
        self.payload_bytes -= sum(sys.getsizeof(it.payload) for it in removed)


class WebhookBudget:
    """Share the free capacity between tenants, depending on each tenant's present usage."""

    def __init__(self, usages: Iterable[tuple[str, MemoryUsage]]) -> None:
        self._free = MemoryUsage(DELIVERIES_MAX, PAYLOADS_BYTES_MAX)
        self._by_tenant: dict[str, MemoryUsage] = {}
        for tenant_id, usage in usages:
            usage_of_tenant = self._by_tenant.setdefault(tenant_id, MemoryUsage())
            usage_of_tenant.deliveries += usage.deliveries
            usage_of_tenant.payload_bytes += usage.payload_bytes
            self._free.deliveries -= usage.deliveries
            self._free.payload_bytes -= usage.payload_bytes

    @property
    def free(self) -> int:
        """Return how many more deliveries fit into the budget, if each has a payload of the maximum size."""
        return max(0, min(self._free.deliveries, self._free.payload_bytes // PAYLOAD_BYTES_MAX))

    @property
    def new_places(self) -> int:
        """Return how many deliveries a claim may take for an endpoint without a queue."""
        if not self.free:
            return 0
        half = 2 * self._free.deliveries >= DELIVERIES_MAX and 2 * self._free.payload_bytes >= PAYLOADS_BYTES_MAX
        return NEW_PLACES if half else FEW_PLACES

    @property
    def full_tenants(self) -> list[str]:
        """List the tenants that have reached their limit. Claims take no deliveries for an endpoint of these tenants if
        the endpoint has no queue yet.
        """
        return [tenant_id for tenant_id in self._by_tenant if not self.places(tenant_id, each_bytes=0)]

    def places(self, tenant_id: str, *, each_bytes: int) -> int:
        """Return how many more deliveries a tenant may have, if each has about `each_bytes`.

        Each payload counts as at least the maximum size of a timer's payload, because the next payload may have this
        size.
        """
        usage = self._by_tenant.get(tenant_id, MemoryUsage())
        number = (self._free.deliveries - usage.deliveries + 1) // 2
        of_bytes = (self._free.payload_bytes - usage.payload_bytes) // (2 * max(each_bytes, PAYLOAD_BYTES_MAX))
        return max(0, min(number, of_bytes))
