"""Claim: fire overdue timers, lease those that are due soon, and ask which timers are leased."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Literal

from shardclock_server.sql.claims.rows import Lags, claimed_timer, lags_of, questions, retry_lost_races
from shardclock_server.sql.claims.scan_window import ScanWindow, values_of
from shardclock_server.sql.session import Session
from shardclock_server.timers.model import ClaimedTimer

Scope = Literal["own", "ahead", "sweep", "outage"]

# Timers that are overdue by more were left by an outage, not by a takeover: the ramp limits how fast they fire.
RAMP_AFTER_S = 10.0


@dataclass(frozen=True, slots=True)
class Scan:
    """Which timers to look for.

    `own`: the holder's slots. `ahead`: the same slots, past a backlog. `sweep`: every slot, whichever shard keeps it.
    `outage`: the holder's slots, for what an outage left, with a fair share for every tenant.

    `floor_s`: skip timers overdue by more than this. The tenant part of an outage scan is the reverse: it takes only
    those. A negative `horizon_s` skips timers that are overdue by less than its amount. With a `window` most slots are
    scanned without reading past rows that have fired. With a `slot` that slot alone is scanned.
    """

    scope: Scope
    horizon_s: float
    batch: int
    floor_s: float | None = None
    after_tenant: str = ""
    window: ScanWindow | None = None
    slot: int | None = None


@dataclass(frozen=True, slots=True)
class ScanResult:
    """What one scan fired and leased, and how many `deliveries` its firings left.

    `saturated` says that there may be more. `ramp_per_s` is how many timers left by an outage this shard may take in a
    second (None: no limit). `next_tenant` is the next scan's `after_tenant`; "" is the beginning.
    """

    server_time: datetime
    fired: int
    lags: Sequence[Lags]
    saturated: bool
    left_by_outage: int
    ramp_per_s: int | None
    next_tenant: str
    claimed: list[ClaimedTimer]
    deliveries: int = 0


@dataclass(frozen=True, slots=True)
class LeasedRow:
    """One timer that is still leased, and the transaction that locks it, or was the last to lock it.

    Timers with the same `locker` become free together.
    """

    timer: ClaimedTimer
    locker: str


async def claim_due(
    session: Session,
    holder: int,
    scan: Scan,
    *,
    lease_s: float,
    fire_overdue: bool = True,
    lag_edges: Sequence[timedelta] | None = None,
    now: datetime | None = None,
) -> ScanResult:
    """Fire overdue timers at once, and lease the timers that fall due within the scan's horizon.

    shape:   about `batch` timers in all, soonest first; often none; no lags without edges to measure them by
    errors:  StoreUnavailable  no answer in time: end this turn; leases that were taken run out by themselves
    source:  sql/claims/claim_due.sql, sql/claims/claim_outage.sql
    """
    question = next(questions)
    outage = scan.scope == "outage"
    more = {"after_tenant": scan.after_tenant} if outage else {"scope": scan.scope, "slot": scan.slot}
    rows = await retry_lost_races(
        session,
        partial(
            session.rows,
            "claim_outage" if outage else "claim_due",
            holder=holder,
            horizon=timedelta(seconds=scan.horizon_s),
            lease=timedelta(seconds=lease_s),
            batch=scan.batch,
            floor=None if scan.floor_s is None else timedelta(seconds=scan.floor_s),
            fire_overdue=fire_overdue,
            ramp_after=timedelta(seconds=RAMP_AFTER_S),
            lag_edges=lag_edges,
            now=now,
            **more,
            **values_of(scan.window),
        ),
    )
    first = rows[0]
    return ScanResult(
        server_time=first["server_time"],
        fired=first["fired"],
        deliveries=first["deliveries"],
        lags=lags_of(first["lags"]),
        saturated=first["saturated"],
        left_by_outage=first["left_by_outage"],
        ramp_per_s=first["ramp_per_s"],
        next_tenant=first["next_tenant"] if outage else "",
        claimed=[claimed_timer(row, question) for row in rows if row["timer_key"] is not None],
    )


async def still_leased(session: Session, holder: int, timer_keys: Sequence[int]) -> list[LeasedRow]:
    """Read which of these timers the holder still leases, as they are now, and which transaction locks each.

    errors:  StoreUnavailable  no answer in time: ask again
    source:  sql/claims/still_leased.sql
    """
    question = next(questions)
    rows = await session.rows("still_leased", holder=holder, timer_keys=timer_keys)
    return [LeasedRow(claimed_timer(row, question), row["locker"]) for row in rows]


async def leased_by(session: Session, holder: int, *, horizon_s: float, lease_s: float) -> list[ClaimedTimer]:
    """Read which timers of its own slots the holder leases, after the answer to a claim was lost on its way.

    shape:   timers that have been due for longer than a lease are left out: they are free again soon, and late anyway
    errors:  StoreUnavailable  no answer in time: ask again
    source:  sql/claims/leased_by.sql
    """
    question = next(questions)
    horizon, lease = timedelta(seconds=horizon_s), timedelta(seconds=lease_s)
    rows = await session.rows("leased_by", holder=holder, horizon=horizon, lease=lease)
    return [claimed_timer(row, question) for row in rows]
