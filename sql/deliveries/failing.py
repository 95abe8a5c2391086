"""Find the handlers with failing deliveries."""

from dataclasses import dataclass
from datetime import datetime

from shardclock_server.sql.session import Session


@dataclass(frozen=True, slots=True)
class FailingHandler:
    """A handler with failing deliveries of one tenant.

    `failing` counts the deliveries with a failed attempt, up to 100; `failing_since` is the firing or the redrive of
    the oldest of these deliveries.
    """

    target: str
    failing: int
    failing_since: datetime


async def find_failing_handlers(session: Session, tenant_id: str, *, limit: int) -> list[FailingHandler]:
    """Find a tenant's handlers with failing deliveries.

    shape:   in alphabetical order, at most `limit`
    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/deliveries/find_failing_handlers.sql
    """
    rows = await session.rows("find_failing_handlers", tenant_id=tenant_id, limit=limit)
    return [FailingHandler(*row) for row in rows]
