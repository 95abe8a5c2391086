"""The overdue timers and the timers of the next half an hour, by minute and target."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from shardclock_server.sql.session import Session

MINUTES = 30


@dataclass(frozen=True, slots=True)
class ComingTimers:
    """The timers of one minute and one target; minute 0 has the overdue timers, and the target None stands for all
    other targets.

    `oldest_due_at` is the first due date; if the number is estimated, it is the first due date in the sample.
    """

    minute: int
    target: str | None
    timers: int
    estimated: bool
    oldest_due_at: datetime


async def count_coming(
    session: Session, tenant_id: str | None, *, with_jobs: bool, now: datetime | None = None
) -> Sequence[ComingTimers]:
    """Count the overdue timers and the timers of the next 30 minutes, of one tenant or of all tenants.

    shape:   by minute and target; the five targets with the most timers have separate rows; a minute without timers has
             no row
    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/metrics/count_coming.sql
    """
    rows = await session.rows("count_coming", tenant_id=tenant_id, with_jobs=with_jobs, now=now)
    return [ComingTimers(*row) for row in rows]
