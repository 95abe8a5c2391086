"""What is measured of deliveries: those that wait, and the dead letters that are kept."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from shardclock_server.sql.session import Session

COUNTED_MAX = 10_000  # of one target: more need not be told apart, and a reading must not take long


@dataclass(frozen=True, slots=True)
class Waiting:
    """Deliveries of one target that are due and that no worker has in hand.

    shape:   `deliveries` is at most COUNTED_MAX, which stands for so many or more
    units:   oldest_s: how long ago the oldest of them became due; 0 if there is none
    """

    target_name: str
    deliveries: int
    oldest_s: float


async def measure_deliveries(
    session: Session, named: int, *, most: int = COUNTED_MAX, now: datetime | None = None
) -> list[Waiting]:
    """Measure what waits for each target: `named` handlers by name, and all other targets as `other`.

    Handlers and endpoints are read by one statement each: the endpoints that tenants name have no limit.

    shape:   by name; the handlers for which nothing waits, and `other`, are among them
    errors:  StoreUnavailable  no answer in time
    source:  sql/metrics/measure_deliveries.sql
    """
    rows = [
        row
        for webhooks in (False, True)
        for row in await session.rows("measure_deliveries", webhooks=webhooks, named=named, most=most, now=now)
    ]
    found: dict[str, Waiting] = {}
    for it in (Waiting(*row) for row in rows):
        before = found.get(it.target_name, Waiting(it.target_name, 0, 0.0))
        deliveries = min(before.deliveries + it.deliveries, most)
        found[it.target_name] = Waiting(it.target_name, deliveries, max(before.oldest_s, it.oldest_s))
    return [found[name] for name in sorted(found)]


async def count_dead_letters(session: Session, named: int, *, most: int = COUNTED_MAX) -> Mapping[str, int]:
    """Count the dead letters of each target, which has the same name as in `measure_deliveries`.

    errors:  StoreUnavailable  no answer in time
    source:  sql/metrics/count_dead_letters.sql
    """
    rows = await session.rows("count_dead_letters", named=named, most=most)
    return {row["target_name"]: row["dead_letters"] for row in rows}
