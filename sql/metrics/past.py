"""The firings, the deliveries and the dead letters of the last minutes."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from shardclock_server.sql.session import Session

LATE_S = 1.0  # A firing with a greater lag is late.


@dataclass(frozen=True, slots=True)
class PastMinute:
    """The numbers of one minute; `fired` includes the late firings, `died` is the number of new dead letters.

    units:   `latest_s` is the greatest lag of a firing; None: no timer fired
    """

    began_at: datetime
    fired: int
    late: int
    latest_s: float | None
    delivered: int
    died: int
    estimated: bool

    @property
    def ends_at(self) -> datetime:
        """Return the end of the minute."""
        return self.began_at + timedelta(minutes=1)


async def count_past(
    session: Session,
    tenant_id: str | None,
    *,
    target: str | None = None,
    with_jobs: bool,
    minutes: int,
    now: datetime | None = None,
) -> Sequence[PastMinute]:
    """Count the records of the last minutes, of one tenant or of all tenants; the present minute is the last one.

    shape:   the oldest minute first; a minute without records has no row
    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/metrics/count_past.sql
    """
    late = timedelta(seconds=LATE_S)
    values = {"tenant_id": tenant_id, "target": target, "with_jobs": with_jobs, "minutes": minutes, "late": late}
    return [PastMinute(*row) for row in await session.rows("count_past", **values, now=now)]
