"""What a shard does to rows: take what is due, fire it, and ask what is still its own."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from sql.session import Session
from timers.model import ClaimedTimer

Scope = Literal["own", "upcoming", "all"]


@dataclass(frozen=True, slots=True)
class Taken:
    """What one walk over the slots brought."""

    server_time: datetime
    fired: int
    saturated: bool
    claimed: list[ClaimedTimer]


@dataclass(frozen=True, slots=True)
class Firing:
    """One leased timer to fire, with what follows it in its schedule."""

    timer: ClaimedTimer
    next_occurrence: int | None = None
    next_due_date: datetime | None = None
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class Fired:
    """Which timers a fire statement fired, and when Postgres did it."""

    server_time: datetime
    server_now: datetime
    timer_keys: frozenset[int]


async def take_due(
    session: Session,
    holder: int,
    *,
    horizon_s: float,
    lease_s: float,
    batch: int,
    scope: Scope = "own",
    fuse: bool = True,
    now: datetime | None = None,
) -> Taken:
    """Fire what is overdue at once, and lease the timers that fall due within the horizon.

    `own` walks the holder's slots from their oldest row; `upcoming` looks past what is overdue; `all` walks every
    slot, whoever keeps it. A negative horizon takes only what is overdue by more than that.

    shape:   about `batch` timers in all, soonest first; often none
    errors:  StoreUnavailable  no answer in time: end this turn; leases that were taken run out by themselves
    source:  sql/queries/take_due.sql
    """
    horizon, lease = timedelta(seconds=horizon_s), timedelta(seconds=lease_s)
    rows = await session.rows("take_due", holder, horizon, lease, batch, scope, fuse, now)
    first = rows[0]
    return Taken(
        server_time=first["server_time"],
        fired=first["fired"],
        saturated=first["saturated"],
        claimed=[ClaimedTimer(*row[3:]) for row in rows if row["timer_key"] is not None],
    )


async def fire_due(session: Session, holder: int, firings: Sequence[Firing], *, now: datetime | None = None) -> Fired:
    """Fire leased timers: each leaves `timers`, gets its record, and is followed by its next occurrence.

    Sending the same firings again is safe: what was fired is gone, and the fence stands on each row.

    shape:   the keys of those fired; fewer than sent were fenced, cancelled, moved, early, or locked
    errors:  StoreUnavailable  the outcome is unknown: send the same firings again
    source:  sql/queries/fire_due.sql
    """
    rows = await session.rows(
        "fire_due",
        holder,
        [firing.timer.timer_key for firing in firings],
        [firing.timer.occurrence for firing in firings],
        [firing.next_occurrence for firing in firings],
        [firing.next_due_date for firing in firings],
        [firing.skipped for firing in firings],
        now,
    )
    return Fired(
        server_time=rows[0]["server_time"],
        server_now=rows[0]["server_now"],
        timer_keys=frozenset(row["timer_key"] for row in rows if row["timer_key"] is not None),
    )


async def still_held(session: Session, holder: int, timer_keys: Sequence[int]) -> list[ClaimedTimer]:
    """Read which of these timers the holder still leases, as they are now.

    errors:  StoreUnavailable  no answer in time: ask again
    source:  sql/queries/still_held.sql
    """
    rows = await session.rows("still_held", holder, timer_keys)
    return [ClaimedTimer(*row) for row in rows]


async def held_by(session: Session, holder: int, *, horizon_s: float) -> list[ClaimedTimer]:
    """Read what the holder leases of its own slots, after the answer to a claim was lost on its way.

    errors:  StoreUnavailable  no answer in time: ask again
    source:  sql/queries/held_by.sql
    """
    rows = await session.rows("held_by", holder, timedelta(seconds=horizon_s))
    return [ClaimedTimer(*row) for row in rows]
