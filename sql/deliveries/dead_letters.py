"""Dead letters: deliveries that were given up, until somebody redrives or discards them."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import NamedTuple

from shardclock_server.sql.session import Session

PAGE_BYTES = 8 * 2**20  # of JSON and reasons: one delivery may have more than 64 KiB, and a page a thousand deliveries


class Place(NamedTuple):
    """Where a dead letter stands among all others."""

    died_at: datetime
    timer_key: int


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

    @property
    def place(self) -> Place:
        """Return behind what the next page begins if this is the last one of a page."""
        return Place(self.died_at, self.timer_key)


class DeadLetterKey(NamedTuple):
    """Which dead letter is meant, and of whom."""

    timer_key: int
    target: str
    tenant_id: str
    died_at: datetime

    @property
    def place(self) -> Place:
        """Return behind what the next page begins if this is the last one of a page."""
        return Place(self.died_at, self.timer_key)


@dataclass(frozen=True, slots=True)
class DeadLetterFilter:
    """Which dead letters to find; a field that is None filters nothing."""

    timer_key: int | None = None
    target: str | None = None
    tenant_id: str | None = None
    died_before: datetime | None = None


async def find_dead_letters(
    session: Session, wanted: DeadLetterFilter, *, limit: int, after: Place | None = None
) -> tuple[list[DeadLetter], bool]:
    """Find dead letters, the one that was given up last first; say whether there are more.

    shape:   at most `limit`, from behind the place `after` on; no other follows once they have `PAGE_BYTES`
    errors:  StoreUnavailable  no answer in time
    source:  sql/deliveries/find_dead_letters.sql
    """
    rows = await session.rows(
        "find_dead_letters",
        **asdict(wanted),
        after_at=after and after.died_at,
        after_key=after and after.timer_key,
        limit=limit,
        bytes=PAGE_BYTES,
    )
    return [DeadLetter(*row[:-1]) for row in rows], bool(rows) and rows[0]["found"] > len(rows)


async def find_dead_letter_keys(
    session: Session, wanted: DeadLetterFilter, *, limit: int, after: Place | None = None
) -> list[DeadLetterKey]:
    """Find dead letters that are to be changed, the one that was given up first coming first.

    shape:   at most `limit`, from behind the place `after` on
    errors:  StoreUnavailable  no answer in time
    source:  sql/deliveries/find_dead_letter_keys.sql
    """
    rows = await session.rows(
        "find_dead_letter_keys",
        **asdict(wanted),
        after_at=after and after.died_at,
        after_key=after and after.timer_key,
        limit=limit,
    )
    return [DeadLetterKey._make(row) for row in rows]


async def redrive_dead_letters(session: Session, timer_keys: Sequence[int], *, per_s: int | None = None) -> list[int]:
    """Deliver dead letters again, from their first attempt on; return the keys of those that are delivered again.

    units:   `per_s` of them become due in a second; None: all at once
    errors:  StoreUnavailable  the outcome is unknown: call again, none is delivered twice for it
    source:  sql/functions/deliveries/redrive_dead_letters.sql
    """
    return [row[0] for row in await session.call("redrive_dead_letters", timer_keys=timer_keys, per_s=per_s)]


async def discard_dead_letters(session: Session, timer_keys: Sequence[int], *, reason: str | None = None) -> list[int]:
    """Discard dead letters for good; return the keys of those that were discarded.

    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/functions/deliveries/discard_dead_letters.sql
    """
    return [row[0] for row in await session.call("discard_dead_letters", timer_keys=timer_keys, reason=reason)]


class ClosedTarget(NamedTuple):
    """Why a target of a tenant would not be called for a dead letter that is redriven.

    `waits`: the delivery waits for an app; else it would be given up again. `disabled`: an endpoint can be enabled.
    """

    target: str
    tenant_id: str
    why: str
    waits: bool
    disabled: bool


async def find_closed_targets(session: Session, lanes: Iterable[tuple[str, str]]) -> list[ClosedTarget]:
    """Find those of some targets, each with its tenant, that would not be called.

    errors:  StoreUnavailable  no answer in time
    source:  sql/deliveries/find_closed_targets.sql
    """
    asked = sorted(set(lanes))
    rows = await session.rows(
        "find_closed_targets", targets=[target for target, _ in asked], tenant_ids=[tenant_id for _, tenant_id in asked]
    )
    return [ClosedTarget._make(row) for row in rows]
