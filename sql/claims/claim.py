"""Claim: fire overdue timers, lease timers that are due soon, and read which timers are leased."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Literal

from shardclock_server.sql.claims.handed import NO_GRANTS, Grants, Handed, handed_of
from shardclock_server.sql.claims.rows import Lags, claimed_timer, lags_of, request_numbers, retry_lost_races
from shardclock_server.sql.claims.scan_window import ScanWindow, values_of
from shardclock_server.sql.session import Session
from shardclock_server.timers.model import ClaimedTimer

Scope = Literal["own", "ahead", "newest", "sweep", "outage"]

# A timer that is overdue by more than this was delayed by an outage, because a takeover causes a shorter delay. The
# ramp limits the firing rate of such timers.
RAMP_AFTER_S = 10.0


@dataclass(frozen=True, slots=True)
class Scan:
    """The slots and the timers that a scan reads.

    `own`: the holder's slots. `ahead`: the holder's slots, without the backlog of overdue timers. `newest`: the
    holder's slots, latest due dates first. `sweep`: all slots, including other shards' slots. `outage`: the holder's
    slots; only timers that became overdue in an outage, in equal shares for all tenants.

    `floor_s`: the scan skips timers that are overdue by more than this. Exception: in an outage scan, each tenant's
    share has only timers that are overdue by more than this. A negative `horizon_s` skips timers that are overdue by
    less than its absolute value. With a `window`, the scan skips the dead rows of fired timers in most slots. With a
    `slot`, the scan reads only this slot.
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
    """The numbers of `fired` timers and their `deliveries` in one scan, and the leased timers (`claimed`).

    `handed` has the deliveries that were handed over to workers. `skipped` is the number of occurrences that the fired
    schedules skipped. `saturated`: there may be more due timers. `ramp_per_s` limits the timers of an outage that this
    shard may claim in a second (None: no limit; 0 during a hold). `next_tenant` is the value of `after_tenant` for the
    next scan; "" means the start of the tenants.
    """

    server_time: datetime
    fired: int
    lags: Sequence[Lags]
    saturated: bool
    left_by_outage: int
    ramp_per_s: float | None
    next_tenant: str
    claimed: list[ClaimedTimer]
    deliveries: int = 0
    skipped: int = 0
    handed: Handed = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LeasedRow:
    """One timer that is still leased, and the last transaction that has locked the timer's row.

    The rows of all timers with the same `locker` are unlocked at the same time.
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
    grants: Grants = NO_GRANTS,
    lag_edges: Sequence[timedelta] | None = None,
    now: datetime | None = None,
) -> ScanResult:
    """Fire overdue timers directly, and lease the timers that become due within the scan's horizon.

    shape:   a total of about `batch` timers, soonest first; often none; without `lag_edges` no lags are measured
    errors:  StoreUnavailable  no answer in time: end this iteration; the leases of an unknown claim will expire
    source:  sql/claims/claim_due.sql, sql/claims/claim_newest.sql, sql/claims/claim_outage.sql
    """
    request_number = next(request_numbers)
    name, more = _statement_of(scan)
    rows = await retry_lost_races(
        session,
        partial(
            session.rows,
            name,
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
            **grants.values(),
        ),
    )
    *claimed, scan_row = rows
    return ScanResult(
        server_time=scan_row["server_time"],
        fired=scan_row["fired"],
        deliveries=scan_row["deliveries"],
        handed=handed_of(scan_row["handed"]),
        skipped=scan_row["skipped"],
        lags=lags_of(scan_row["lags"]),
        saturated=scan_row["saturated"],
        left_by_outage=scan_row["left_by_outage"],
        ramp_per_s=scan_row["ramp_per_s"],
        next_tenant=scan_row["next_tenant"],
        claimed=[claimed_timer(row, request_number) for row in claimed],
    )


def _statement_of(scan: Scan) -> tuple[str, dict[str, object]]:
    """Return the statement for a scan's scope, and the values of the parameters that only this statement has."""
    if scan.scope == "newest":
        return "claim_newest", {}
    window = values_of(scan.window)
    if scan.scope == "outage":
        return "claim_outage", {"after_tenant": scan.after_tenant, **window}
    return "claim_due", {"scope": scan.scope, "slot": scan.slot, **window}


async def still_leased(session: Session, holder: int, timer_keys: Sequence[int]) -> list[LeasedRow]:
    """Read the current rows of the timers that the holder still leases, and the transactions that lock these rows.

    errors:  StoreUnavailable  no answer before the timeout: ask again
    source:  sql/claims/still_leased.sql
    """
    request_number = next(request_numbers)
    rows = await session.rows("still_leased", holder=holder, timer_keys=timer_keys)
    return [LeasedRow(claimed_timer(row, request_number), row["locker"]) for row in rows]


async def leased_by(session: Session, holder: int, *, horizon_s: float, lease_s: float) -> list[ClaimedTimer]:
    """Read the timers in a holder's slots that the holder leases.

    A shard calls this after the result of a claim was lost.

    shape:   timers that are overdue by more than a lease duration are left out, because any shard can claim them soon
    errors:  StoreUnavailable  no answer before the timeout: ask again
    source:  sql/claims/leased_by.sql
    """
    request_number = next(request_numbers)
    horizon, lease = timedelta(seconds=horizon_s), timedelta(seconds=lease_s)
    rows = await session.rows("leased_by", holder=holder, horizon=horizon, lease=lease)
    return [claimed_timer(row, request_number) for row in rows]
