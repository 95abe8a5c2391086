"""The stored limits of tenants, and their usage."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from shardclock_server.sql.session import Record, Session

# The indexes by tenant leave out this tenant: docs/decisions/0046-quotas.md.
UNINDEXED = "default"
USED_MAX = 1_000_000  # Each resource of processes is counted up to this number.
EXACT_MAX = 100_000  # Timers are counted exactly up to this number; a larger number is estimated.
SAMPLE_TIMERS = 200_000  # An estimate reads this many timers of all tenants.


@dataclass(frozen=True, slots=True)
class Limits:
    """A tenant's limits. None means the default value if `DEFAULTS` has the limit; otherwise None means no limit.

    units:   `waiters_max` and `rate_per_s` apply to each gateway, all other limits to the whole installation
    """

    timers_max: int | None = None
    payload_bytes_max: int | None = None
    waiters_max: int | None = None
    endpoints_max: int | None = None
    rate_per_s: float | None = None
    instances_max: int | None = None
    tasks_max: int | None = None
    messages_max: int | None = None
    definitions_max: int | None = None
    schedules_max: int | None = None

    @property
    def schedules_most(self) -> int:
        """Return the limit of pending schedules, or its default value."""
        return DEFAULTS["schedules_max"] if self.schedules_max is None else self.schedules_max

    @property
    def are_of_pending(self) -> bool:
        """Return whether scheduling a timer needs a count of the tenant's pending timers."""
        return self.timers_max is not None or self.payload_bytes_max is not None


# The defaults of the limits of processes are also in shardclock.quota_of.
DEFAULTS = {
    "instances_max": 1_000_000, "tasks_max": 1_000_000, "messages_max": 100_000, "definitions_max": 10_000,
    "schedules_max": 20_000,
}  # fmt: skip
NO_LIMIT = 2**63 - 1  # This value of a limit switches the limit off; null means the default.
COUNTED = tuple(name.removesuffix("_max") for name in DEFAULTS)
LIMITS = tuple(field.name for field in fields(Limits))


@dataclass(frozen=True, slots=True)
class Tenant:
    """A tenant that has limits of its own."""

    tenant_id: str
    limits: Limits
    changed_at: datetime


@dataclass(frozen=True, slots=True)
class Pending:
    """The number of a tenant's pending and paused timers, and the size of their payloads as JSON text."""

    timers: int = 0
    payload_bytes: int = 0
    schedules: int = 0
    estimated: bool = False


class RemainingQuota(NamedTuple):
    """The unused part of a tenant's quota for one resource; None: there is no limit.

    shape:   `counted_at` is the moment of a stored count; None: this call has counted the rows
    """

    quota: int | None
    left: int | None
    counted_at: datetime | None


async def remaining_quotas(session: Session, tenants: Sequence[str]) -> dict[str, dict[str, RemainingQuota]]:
    """Return the unused quotas of tenants for instances, tasks and timers, which engines write.

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/tenant_limits/remaining_quotas.sql
    """
    found: dict[str, dict[str, RemainingQuota]] = {tenant: {} for tenant in tenants}
    for row in await session.rows("remaining_quotas", tenants=list(tenants)):
        found[row["tenant_id"]][row["resource"]] = RemainingQuota(row["quota"], row["remaining"], row["counted_at"])
    return found


async def count_usage(session: Session, *, age_s: float, batch: int) -> int:
    """Update the usage counts of tenants with large quotas; return the number of updated counts.

    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/tenant_limits/count_usage.sql
    """
    return len(await session.rows("count_usage", age=timedelta(seconds=age_s), batch=batch))


async def count_used(session: Session, tenant_id: str) -> dict[str, int]:
    """Count a tenant's usage of the resources in `COUNTED`, up to a million of each.

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/tenant_limits/count_used.sql
    """
    row = await session.row("count_used", tenant_id=tenant_id, most=USED_MAX)
    assert row is not None, "it counts"
    return dict(row)


async def list_tenants(session: Session, *, tenant_id: str | None = None, limit: int) -> list[Tenant]:
    """List the tenants that have limits of their own, by name.

    shape:   at most `limit`
    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/tenant_limits/list_tenants.sql
    """
    return [_tenant_of(row) for row in await session.rows("list_tenants", tenant_id=tenant_id, limit=limit)]


async def find_limits(session: Session, tenant_id: str) -> Limits | None:
    """Find the limits that were set for a tenant; None: the default limits apply.

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/tenant_limits/find_limits.sql
    """
    row = await session.row("find_limits", tenant_id=tenant_id)
    return None if row is None else _limits_of(row)


async def set_limits(session: Session, tenant_id: str, given: Mapping[str, Any]) -> Tenant:
    """Set the given limits of a tenant, by name; other limits of the tenant don't change.

    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/tenant_limits/set_limits.sql
    """
    row = await session.row("set_limits", tenant_id=tenant_id, given=list(given), **asdict(Limits(**given)))
    assert row is not None, "the statement returns the written row"
    return _tenant_of(row)


async def lock_limits(session: Session, tenant_id: str) -> None:
    """Wait for concurrent changes of a tenant's limits, and block further changes until the end of the transaction.

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/tenant_limits/lock_limits.sql
    """
    await session.rows("lock_limits", tenant_id=tenant_id)


async def remove_limits(session: Session, tenant_id: str) -> Limits | None:
    """Remove the limits that were set for a tenant, and return them; None: no limits were set.

    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/tenant_limits/remove_limits.sql
    """
    row = await session.row("remove_limits", tenant_id=tenant_id)
    return None if row is None else _limits_of(row)


async def measure_pending(session: Session, tenant_id: str, *, timers_max: int | None = None) -> Pending:
    """Count a tenant's pending timers: exactly up to 100,000; a larger number is an estimate.

    With `timers_max`, the count stops after this many timers.

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/tenant_limits/count_pending.sql, sql/tenant_limits/sample_pending.sql
    """
    if tenant_id != UNINDEXED:
        most = EXACT_MAX if timers_max is None else min(EXACT_MAX, max(1, timers_max))
        (row,) = await session.rows("count_pending", tenant_id=tenant_id, most=most)
        if row["timers"] < most or most == timers_max:
            return Pending(**row)
    (row,) = await session.rows("sample_pending", tenant_id=tenant_id, most=SAMPLE_TIMERS)
    return Pending(**row)


async def count_schedules(session: Session, tenant_id: str, *, most: int) -> int:
    """Count a tenant's pending and paused schedules, up to a limit.

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/functions/quotas/usage_of.sql
    """
    return int(await session.call_one("usage_of", tenant_id=tenant_id, resource="schedules", most=most))


async def find_named_pending(session: Session, tenant_id: str, names: Sequence[str]) -> dict[str, Pending]:
    """Find the pending timers with these names, and the size of each payload.

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/tenant_limits/find_named_pending.sql
    """
    rows = await session.rows("find_named_pending", tenant_id=tenant_id, names=names)
    return {row["name"]: Pending(1, row["payload_bytes"], row["schedules"]) for row in rows}


def _limits_of(row: Record) -> Limits:
    return Limits(*(row[name] for name in LIMITS))


def _tenant_of(row: Record) -> Tenant:
    return Tenant(row["tenant_id"], _limits_of(row), row["changed_at"])
