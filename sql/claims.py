"""What a shard does to rows: take what is due, plan it or fire it, and ask what is still its own."""

import contextlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from sql.lookback import Lately, arguments
from sql.session import Record, Session, StoreLocked
from timers.model import ClaimedTimer
from timers.occurrence import Occurrence, Rule

Scope = Literal["own", "ahead", "all", "backlog"]

# What is overdue by more was left by an outage, not by a takeover: it is the ramp's.
RAMP_AFTER_S = 10.0
LOOKS = 3  # for so many rows, one after the other, to be locked in the same few milliseconds is a fault to tell of


@dataclass(frozen=True, slots=True)
class Lags:
    """How late timers of one target and type were: of so many, all within the same number of the edges asked about."""

    target: str
    timer_type: str
    edges_within: int
    timers: int
    sum_s: float


@dataclass(frozen=True, slots=True)
class Taken:
    """What one walk brought, and how fast this shard may take what an outage left (None: at any rate)."""

    server_time: datetime
    fired: int
    lags: Sequence[Lags]
    saturated: bool
    left_by_outage: int
    ramp_per_s: int | None
    next_tenant: str
    claimed: list[ClaimedTimer]


@dataclass(frozen=True, slots=True)
class Firing:
    """One leased timer whose turn it is, with what follows it in its schedule."""

    timer: ClaimedTimer
    fires: bool = True
    skipped: int = 0
    next: Occurrence | None = None


@dataclass(frozen=True, slots=True)
class Planning:
    """One leased schedule that had no date yet, with the rule it was read to and its first occurrence."""

    timer: ClaimedTimer
    rule: Rule
    first: Occurrence
    repetitions: int


@dataclass(frozen=True, slots=True)
class Fired:
    """Which timers a fire statement took out of the table, and when Postgres did it."""

    server_time: datetime
    server_now: datetime
    timer_keys: frozenset[int]
    lags: Sequence[Lags]


@dataclass(frozen=True, slots=True)
class Walk:
    """Where to look for timers, and how far.

    `own` walks the holder's slots from their oldest row, and so does `ahead`, past a backlog; `all` every slot, whoever
    keeps it; `backlog` its own slots, and every tenant's timers for a fair share of each. `floor_s` leaves out what is
    due longer ago, and of the tenants' timers what is not. A negative horizon takes only what is overdue by more.
    `lately` spares most slots the way past rows that have fired.
    """

    scope: Scope
    horizon_s: float
    batch: int
    floor_s: float | None = None
    after_tenant: str = ""
    lately: Lately | None = None


async def take_due(
    session: Session,
    holder: int,
    walk: Walk,
    *,
    lease_s: float,
    fuse: bool = True,
    lag_edges: Sequence[timedelta] | None = None,
    now: datetime | None = None,
) -> Taken:
    """Fire what is overdue at once, and lease the timers that fall due within the walk's horizon.

    shape:   about `batch` timers in all, soonest first; often none; no lags without edges to measure them by
    errors:  StoreUnavailable  no answer in time: end this turn; leases that were taken run out by themselves
    source:  sql/queries/take_due.sql
    """
    rows = await _looking_again(
        session,
        "take_due",
        holder,
        timedelta(seconds=walk.horizon_s),
        timedelta(seconds=lease_s),
        walk.batch,
        walk.scope,
        None if walk.floor_s is None else timedelta(seconds=walk.floor_s),
        fuse,
        timedelta(seconds=RAMP_AFTER_S),
        walk.after_tenant,
        lag_edges,
        now,
        *arguments(walk.lately),
    )
    first = rows[0]
    return Taken(
        server_time=first["server_time"],
        fired=first["fired"],
        lags=_lags(first["lags"]),
        saturated=first["saturated"],
        left_by_outage=first["left_by_outage"],
        ramp_per_s=first["ramp_per_s"],
        next_tenant=first["next_tenant"],
        claimed=[ClaimedTimer(*row[7:]) for row in rows if row["timer_key"] is not None],
    )


async def fire_due(
    session: Session,
    holder: int,
    firings: Sequence[Firing],
    *,
    lag_edges: Sequence[timedelta] = (),
    now: datetime | None = None,
) -> Fired:
    """Fire leased timers: each leaves `timers`, gets its record, and is followed by its next occurrence.

    Sending the same firings again is safe: what was fired is gone, and the fence stands on each row.

    shape:   the keys of those that are gone; fewer than sent were fenced, cancelled, moved, early, or locked
    errors:  StoreUnavailable  the outcome is unknown: send the same firings again
    source:  sql/queries/fire_due.sql
    """
    nexts = [firing.next for firing in firings]
    (row,) = await _looking_again(
        session,
        "fire_due",
        holder,
        [firing.timer.timer_key for firing in firings],
        [firing.timer.occurrence for firing in firings],
        [firing.fires for firing in firings],
        [firing.skipped for firing in firings],
        [following and following.number for following in nexts],
        [following and following.due_date for following in nexts],
        [following and following.anchor for following in nexts],
        [following and following.anchor_number for following in nexts],
        lag_edges,
        now,
    )
    return Fired(row["server_time"], row["server_now"], frozenset(row["timer_keys"]), _lags(row["lags"]))


async def plan_schedules(session: Session, holder: int, plannings: Sequence[Planning]) -> frozenset[int]:
    """Give leased schedules their first date; the keys of those that got it come back.

    errors:  StoreUnavailable  the outcome is unknown: whoever leases them next plans those that need it
    source:  sql/queries/plan_schedules.sql
    """
    firsts = [planning.first for planning in plannings]
    rows = await session.rows(
        "plan_schedules",
        holder,
        [planning.timer.timer_key for planning in plannings],
        [str(planning.rule) for planning in plannings],
        [planning.rule.zone.key for planning in plannings],
        [first.due_date for first in firsts],
        [first.anchor for first in firsts],
        [first.anchor_number for first in firsts],
        [planning.repetitions for planning in plannings],
    )
    return frozenset(row["timer_key"] for row in rows)


async def set_aside(session: Session, holder: int, timer_key: int, *, why: str) -> bool:
    """Pause a leased timer that can't be fired, and record why; False if it is no longer the holder's.

    errors:  StoreUnavailable  the outcome is unknown: its lease runs out, and the next holder sees to it
    source:  sql/queries/set_aside.sql
    """
    return bool(await session.rows("set_aside", holder, timer_key, why))


async def still_held(session: Session, holder: int, timer_keys: Sequence[int]) -> list[ClaimedTimer]:
    """Read which of these timers the holder still leases, as they are now.

    errors:  StoreUnavailable  no answer in time: ask again
    source:  sql/queries/still_held.sql
    """
    rows = await session.rows("still_held", holder, timer_keys)
    return [ClaimedTimer(*row) for row in rows]


async def held_by(session: Session, holder: int, *, horizon_s: float, lease_s: float) -> list[ClaimedTimer]:
    """Read what the holder leases of its own slots, after the answer to a claim was lost on its way.

    shape:   what has been due for longer than a lease is left out: it is free again soon, and late anyway
    errors:  StoreUnavailable  no answer in time: ask again
    source:  sql/queries/held_by.sql
    """
    rows = await session.rows("held_by", holder, timedelta(seconds=horizon_s), timedelta(seconds=lease_s))
    return [ClaimedTimer(*row) for row in rows]


async def _looking_again(session: Session, name: str, *args: object) -> list[Record]:
    """Run a statement that looks before it takes; somebody may lock a row in between, and a second look sees that."""
    for _ in range(LOOKS - 1):
        with contextlib.suppress(StoreLocked):
            return await session.rows(name, *args)
    return await session.rows(name, *args)


def _lags(text: str | None) -> list[Lags]:
    return [Lags(*fields) for fields in json.loads(text)] if text else []
