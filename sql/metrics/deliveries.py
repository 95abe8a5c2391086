"""Measure waiting deliveries and dead letters."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from shardclock_server.sql.session import Session

COUNTED_MAX = 10_000  # the count of a target stops at this number, so that a measurement stays fast


@dataclass(frozen=True, slots=True)
class Waiting:
    """The deliveries of one target that are due and not claimed.

    shape:   `deliveries` is counted up to COUNTED_MAX
    units:   oldest_s: the time since the oldest of these deliveries became due; 0: no delivery waits
    """

    target_name: str
    deliveries: int
    oldest_s: float


async def measure_deliveries(
    session: Session, named: int, *, most: int = COUNTED_MAX, now: datetime | None = None
) -> list[Waiting]:
    """Measure the waiting deliveries: up to `named` handlers separately, and all other targets together as `other`.

    One statement reads handlers and another reads endpoints, because tenants may have any number of endpoints.

    shape:   by name; handlers without waiting deliveries, and `other`, are included
    errors:  StoreUnavailable  no answer before the timeout
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
    """Count the dead letters of each target, with the same names as `measure_deliveries`.

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/metrics/count_dead_letters.sql
    """
    rows = await session.rows("count_dead_letters", named=named, most=most)
    return {row["target_name"]: row["dead_letters"] for row in rows}
