"""Find timers that a shard has paused because it could not fire them."""

from dataclasses import dataclass
from datetime import datetime

from shardclock_server.sql.session import Session

LOOKED_MAX = 10_000  # the search reads at most this many timers, the last changed first


@dataclass(frozen=True, slots=True)
class RefusedTimer:
    """A timer that a shard has paused, with the reason; a client repairs or cancels it."""

    timer_key: int
    name: str | None
    target: str
    schedule: str | None
    paused_at: datetime
    reason: str


async def find_refused(session: Session, tenant_id: str, *, with_jobs: bool, limit: int) -> list[RefusedTimer]:
    """Find a tenant's timers that a shard has paused, the last paused first.

    shape:   at most `limit`; the search reads the `LOOKED_MAX` timers that were changed last
    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/clients/find_refused.sql
    """
    rows = await session.rows("find_refused", tenant_id=tenant_id, with_jobs=with_jobs, looked=LOOKED_MAX, limit=limit)
    return [RefusedTimer(*row) for row in rows]
