"""Find the handlers with failing deliveries, and group failing deliveries by reason."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from shardclock_server.sql.session import Session

FAILING_READ_MAX, FAILING_GROUPS_MAX = 2_000, 20


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


class FailingGroup(NamedTuple):
    """Failing deliveries with the same target and the same first line of the last reason.

    `since` is the firing or the redrive of the oldest delivery, `next_at` the first next attempt; `counted` is the
    number of failing deliveries that were read for all groups.
    """

    target: str
    reason_line: str
    deliveries: int
    since: datetime
    next_at: datetime
    counted: int

    @property
    def is_all(self) -> bool:
        """Return whether all failing deliveries were read."""
        return self.counted < FAILING_READ_MAX


async def group_failing_deliveries(
    session: Session, tenant_id: str, *, target: str | None = None
) -> list[FailingGroup]:
    """Group a tenant's failing deliveries by target and first line of the last reason.

    shape:   at most 20 groups, the largest first, of at most 2,000 deliveries
    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/deliveries/group_failing_deliveries.sql
    """
    rows = await session.rows(
        "group_failing_deliveries",
        target=target,
        tenant_id=tenant_id,
        rows_max=FAILING_READ_MAX,
        groups_max=FAILING_GROUPS_MAX,
    )
    return [FailingGroup(*row) for row in rows]
