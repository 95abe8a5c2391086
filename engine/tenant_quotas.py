"""Enforce the tenants' quotas of instances, open tasks and pending timers.

While a tenant's remaining quota is sufficient, an engine reads it at most once a second, and subtracts its own later
writes: docs/decisions/0071-quotas-of-processes.md.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from shardclock.api.codes import quota
from shardclock.api.refusals.tenants import QUOTAS
from shardclock_server.engine.usage_increase import NOTHING, UsageIncrease
from shardclock_server.sql.session import Session
from shardclock_server.sql.tenant_limits.tenant_limits import RemainingQuota, remaining_quotas
from shardclock_server.timers.refusal import Refusal

READ_S = 1.0  # the time after which a sufficient quota is read again
TENANTS_MAX = 10_000


class QuotaExceeded(Refusal):
    """A step exceeds a quota of its tenant; the engine retries the step later."""


@dataclass(slots=True)
class QuotaSnapshot:
    """The remaining quotas of one tenant at the last reading, and the writes since that reading.

    shape:   `written` has the written amounts; keys: the resource and the server's time of the write
    """

    read_at_s: float
    rooms: Mapping[str, RemainingQuota]
    written: dict[str, Counter[datetime]]

    def left(self, resource: str) -> int | None:
        """Return the remaining quota of a resource; None: the resource has no limit."""
        left = self.rooms[resource].left
        return None if left is None else left - self.written[resource].total()

    def write(self, need: UsageIncrease, now: datetime) -> None:
        """Subtract the rows of a step from the quotas."""
        for resource, more in zip(UsageIncrease._fields, need, strict=True):
            if more:
                self.written[resource][now] += more


class TenantQuotas:
    """Reserve quota for the steps of one runner."""

    def __init__(self, session: Session, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._session = session
        self._clock = clock
        self._known: dict[str, QuotaSnapshot] = {}

    async def refused(
        self, increases: Mapping[int, tuple[str, UsageIncrease]], *, now: datetime
    ) -> dict[int, QuotaExceeded]:
        """Reserve quota for the steps of instances; return the instances with a step that exceeds a quota.

        shape:   `increases` has the tenant and the increase of each instance's step; `now` is the server's time
        errors:  StoreUnavailable  no answer before the timeout
        """
        wanted = {key: need for key, need in increases.items() if need[1] is not NOTHING}
        totals = _totals(wanted.values())
        await self._read(set(totals), READ_S)
        # Read again before a step is delayed, because the remaining quota may be larger now.
        await self._read({tenant for tenant, total in totals.items() if self._exceeded_resource(tenant, total)}, 0.0)
        short = {tenant for tenant, total in totals.items() if self._exceeded_resource(tenant, total)}
        for tenant in totals.keys() - short:
            self._known[tenant].write(totals[tenant], now)
        refused = {}
        for key, (tenant, need) in wanted.items() if short else ():
            if tenant not in short:
                continue
            known = self._known[tenant]
            if resource := self._exceeded_resource(tenant, need):
                refused[key] = _quota_exceeded(tenant, resource, known.rooms[resource], getattr(need, resource))
            else:
                known.write(need, now)
        return refused

    async def _read(self, tenants: set[str], age_s: float) -> None:
        now_s = self._clock()
        due = sorted(
            tenant
            for tenant in tenants
            if (known := self._known.get(tenant)) is None or now_s - known.read_at_s >= age_s
        )
        if not due:
            return
        if len(self._known) + len(due) > TENANTS_MAX:
            self._known = {tenant: self._known[tenant] for tenant in tenants if tenant in self._known}
        for tenant, rooms in (await remaining_quotas(self._session, due)).items():
            before = self._known[tenant].written if tenant in self._known else {}
            written = {resource: _writes_since(before.get(resource), room) for resource, room in rooms.items()}
            self._known[tenant] = QuotaSnapshot(now_s, rooms, written)

    def _exceeded_resource(self, tenant: str, need: UsageIncrease) -> str | None:
        """Return the resource that exceeds its quota; None: no resource does."""
        for resource, more in zip(UsageIncrease._fields, need, strict=True):
            left = self._known[tenant].left(resource) if more else None
            if left is not None and more > left:
                return resource
        return None


def _totals(increases: Iterable[tuple[str, UsageIncrease]]) -> dict[str, UsageIncrease]:
    """Sum up the increases of all instances of each tenant."""
    totals: dict[str, UsageIncrease] = {}
    for tenant, (instances, tasks, timers) in increases:
        total = totals.get(tenant, NOTHING)
        totals[tenant] = UsageIncrease(total.instances + instances, total.tasks + tasks, total.timers + timers)
    return totals


def _writes_since(before: Counter[datetime] | None, room: RemainingQuota) -> Counter[datetime]:
    """Return the earlier writes that a new count of the usage may not include, because they may be newer."""
    if before is None or room.counted_at is None:
        return Counter()
    return Counter({at: amount for at, amount in before.items() if at >= room.counted_at})


def _quota_exceeded(tenant: str, resource: str, room: RemainingQuota, more: int) -> QuotaExceeded:
    things, way_out = QUOTAS[resource]
    return QuotaExceeded.of(
        quota(resource), tenant_id=tenant, limit=room.quota, things=things, more=more, way_out=way_out
    )
