"""The targets of timers: the log, handlers, jobs and endpoints."""

from dataclasses import dataclass
from datetime import datetime

from shardclock_server.sql.session import Session


@dataclass(frozen=True, slots=True)
class Target:
    """One target, the tenant that may use it, and the numbers of its open deliveries and dead letters.

    `tenant_id` is None if all tenants may use the target. After `closed_at`, no new timer may use the target. `waiting`
    and `dead_letters` are counted up to 1,000; if the caller names a tenant, only for this tenant. `workers` is the
    number of running workers with the handler or the job in their apps; None for the log and for endpoints.
    """

    target: str
    kind: str
    tenant_id: str | None
    closed_at: datetime | None
    closed_why: str | None
    waiting: int
    dead_letters: int
    workers: int | None


async def declared_targets(session: Session, tenant_id: str) -> list[str]:
    """List the targets that a tenant's service tasks may name: declared handlers and the tenant's endpoints.

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/deliveries/declared_targets.sql
    """
    return [row["target"] for row in await session.rows("declared_targets", tenant_id=tenant_id)]


async def list_targets(session: Session, *, tenant_id: str | None, limit: int) -> list[Target]:
    """List all targets, or the targets that a tenant's timers may use.

    shape:   at most `limit`: the log, handlers, jobs, then endpoints, each by name
    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/deliveries/list_targets.sql
    """
    return [Target(*row) for row in await session.rows("list_targets", tenant_id=tenant_id, limit=limit)]
