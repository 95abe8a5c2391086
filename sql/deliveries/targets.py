"""The targets that timers may have: the log, handlers, jobs and endpoints."""

from dataclasses import dataclass
from datetime import datetime

from shardclock_server.sql.session import Session


@dataclass(frozen=True, slots=True)
class Target:
    """One target, the tenant that may name it, and its open deliveries.

    `tenant_id` is None if all tenants may name the target. Since `closed_at` no new timer may name it. `waiting` and
    `dead_letters` are counted up to 1,000; if the call names a tenant, only for this tenant.
    """

    target: str
    kind: str
    tenant_id: str | None
    closed_at: datetime | None
    closed_why: str | None
    waiting: int
    dead_letters: int


async def declared_targets(session: Session, tenant_id: str) -> list[str]:
    """List the possible targets of a tenant's service tasks: declared handlers, and its endpoints.

    errors:  StoreUnavailable  no answer in time
    source:  sql/deliveries/declared_targets.sql
    """
    return [row["target"] for row in await session.rows("declared_targets", tenant_id=tenant_id)]


async def list_targets(session: Session, *, tenant_id: str | None, limit: int) -> list[Target]:
    """List all targets, or the targets that a tenant's timers may name.

    shape:   at most `limit`: the log, handlers, jobs, then endpoints, each by name
    errors:  StoreUnavailable  no answer in time
    source:  sql/deliveries/list_targets.sql
    """
    return [Target(*row) for row in await session.rows("list_targets", tenant_id=tenant_id, limit=limit)]
