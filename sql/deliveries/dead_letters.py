"""Dead letters: deliveries that were given up, until somebody redrives or discards them."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from sql.session import Session


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One delivery that was given up, and why; `payload` and `failures` are JSON."""

    timer_key: int
    target: str
    tenant_id: str
    name: str | None
    occurrence: int
    due_date: datetime
    fired_at: datetime
    died_at: datetime
    failed_attempts: int
    reason: str
    payload: str | None
    failures: str | None


@dataclass(frozen=True, slots=True)
class DeadLetterFilter:
    """Which dead letters to find; a field that is None filters nothing."""

    timer_key: int | None = None
    target: str | None = None
    tenant_id: str | None = None
    died_before: datetime | None = None


async def find_dead_letters(session: Session, wanted: DeadLetterFilter, *, limit: int) -> list[DeadLetter]:
    """Find dead letters, the one that was given up last first.

    shape:   at most `limit`
    errors:  StoreUnavailable  no answer in time
    source:  sql/deliveries/find_dead_letters.sql
    """
    return [DeadLetter(*row) for row in await session.rows("find_dead_letters", **asdict(wanted), limit=limit)]


async def redrive_dead_letters(session: Session, timer_keys: Sequence[int], *, per_s: int | None = None) -> list[int]:
    """Deliver dead letters again, from their first attempt on; return the keys of those that are delivered again.

    units:   `per_s` of them become due in a second; None: all at once
    errors:  StoreUnavailable  the outcome is unknown: call again, none is delivered twice for it
    source:  sql/deliveries/redrive_dead_letters.sql
    """
    return [row["timer_key"] for row in await session.rows("redrive_dead_letters", timer_keys=timer_keys, per_s=per_s)]


async def discard_dead_letters(session: Session, timer_keys: Sequence[int], *, reason: str | None = None) -> list[int]:
    """Discard dead letters for good; return the keys of those that were discarded.

    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/deliveries/discard_dead_letters.sql
    """
    rows = await session.rows("discard_dead_letters", timer_keys=timer_keys, reason=reason)
    return [row["timer_key"] for row in rows]
