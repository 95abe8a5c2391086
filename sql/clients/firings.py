"""Read the last firings of schedules from the log."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from shardclock_server.sql.session import Session

FIRINGS_MAX = 30
# The limit of records to read for a schedule. A firing has one record, or two if the timer has a target. Other records
# are about changes.
RECORDS_MAX = 100


@dataclass(frozen=True, slots=True)
class PastFiring:
    """One occurrence of a schedule that fired, or a group of occurrences that were skipped together.

    shape:   `intent` is TRIGGERED or SKIPPED; `late_s` is None for SKIPPED; `skipped` is 0 for TRIGGERED
    """

    recorded_at: datetime
    intent: str
    due_date: datetime
    occurrence: int
    late_s: float | None
    skipped: int


async def read_firings(session: Session, tenant_id: str, names: Sequence[str]) -> dict[str, list[PastFiring]]:
    """Read the last firings of a tenant's schedules, in one statement.

    shape:   for each schedule's name, at most FIRINGS_MAX firings, newest first, from the newest 100 records of the
             name; a name without firings has no entry
    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/clients/read_firings.sql
    """
    found: defaultdict[str, list[PastFiring]] = defaultdict(list)
    if names:
        values = {"tenant_id": tenant_id, "names": list(names), "firings_max": FIRINGS_MAX, "records_max": RECORDS_MAX}
        for name, *columns in await session.rows("read_firings", **values):
            found[name].append(PastFiring(*columns))
    return dict(found)
