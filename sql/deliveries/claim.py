"""Claim deliveries that are due, and renew the leases of long calls."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol, TypeAlias

from shardclock_server.sql.endpoints.endpoints import WEBHOOK
from shardclock_server.sql.session import Record, Session


class Lane(NamedTuple):
    """One target's deliveries of one tenant. A backlog in one lane does not delay other lanes."""

    target: str
    tenant_id: str

    @property
    def place(self) -> str:
        """Return the name of an endpoint's entry in `DeliveryScan.places`."""
        return f"{self.target} {self.tenant_id}"


class Position(NamedTuple):
    """A position in a lane: directly after the delivery with this due date and this key."""

    next_attempt_at: datetime
    timer_key: int


BEGINNING = Lane("", "")
Claim: TypeAlias = tuple[int, int]  # a delivery's key, and how often it was claimed


class ClaimedDelivery(NamedTuple):
    """One delivery that a worker has claimed; `claims` is the number of its claims so far, and fences its settlement.

    shape:   the fields are the first columns of the statement's result, in their order; a named tuple, because it is
             ten times faster than a dataclass
    """

    timer_key: int
    process_instance_key: int | None
    element_instance_key: int | None
    due_date: datetime
    fired_at: datetime
    next_attempt_at: datetime
    redriven_at: datetime | None
    occurrence: int
    claims: int
    failed_attempts: int
    given_back: int
    tenant_id: str
    timer_type: str
    target: str
    target_element_id: str | None
    name: str | None
    schedule: str | None
    payload: str | None
    attempts_max: int | None = None  # the limit in the model of a service task; None: the limit in the policy

    @property
    def claim(self) -> Claim:
        """Return the identity of this claim."""
        return self.timer_key, self.claims


OF_DELIVERY = len(ClaimedDelivery._fields)  # the columns of a delivery; in a row, the columns of the scan follow


class HasClaim(Protocol):
    """A claimed delivery, or the run that a worker makes for a delivery."""

    @property
    def claim(self) -> Claim:
        """Return the delivery's key and the number of the claim."""


@dataclass(frozen=True, slots=True)
class DeliveryScan:
    """The lanes that a scan reads, and the limits for the deliveries that it claims.

    `places` is the limit of claimed deliveries for each target, for all tenants together; without an entry, the limit
    is the batch. An endpoint's lane has its own entry, with the key `Lane.place`; without an entry, the limit of the
    lane is `webhooks`, or 0 if the tenant is in `full_tenants`.

    With `lanes`, the scan reads these lanes, each from the given position. Without `lanes`, the scan searches for lanes
    after the lane `after`, and reads each of them from its soonest delivery.
    """

    targets: Collection[str]
    batch: int
    webhooks: int = 0
    full_tenants: Collection[str] = ()
    places: Mapping[str, int] = field(default_factory=dict)
    lanes: Mapping[Lane, Position] | None = None
    after: Lane = BEGINNING

    def has_places(self, lane: Lane) -> bool:
        """Return whether the scan may take deliveries of a lane."""
        if lane.target.startswith(WEBHOOK):
            new = 0 if lane.tenant_id in self.full_tenants else self.webhooks
            return self.places.get(lane.place, new) > 0
        return lane.target in self.targets and self.places.get(lane.target, self.batch) > 0


@dataclass(frozen=True, slots=True)
class DeliveryScanResult:
    """The result of one scan; `saturated`: more deliveries may be due; `next` is the `after` of the next scan.

    `is_empty`: all lanes were searched, and no delivery exists, not even a claimed delivery or a delivery with a later
    due date.
    """

    server_time: datetime
    lanes: int
    saturated: bool
    next: Lane
    claimed: list[ClaimedDelivery]
    is_empty: bool = False


async def claim_deliveries(
    session: Session, holder: int, scan: DeliveryScan, *, lease_s: float, now: datetime | None = None
) -> DeliveryScanResult:
    """Claim due deliveries of the holder's slots, a fair share for each lane.

    shape:   at most `batch` deliveries, each lane's in the order of their positions; often none
    errors:  StoreUnavailable  no answer in time: the leases of a lost claim expire by themselves
    source:  sql/deliveries/claim_deliveries.sql
    """
    rows = await session.rows(
        "claim_deliveries",
        holder=holder,
        lease=timedelta(seconds=lease_s),
        batch=scan.batch,
        targets=list(scan.targets),
        places=json.dumps(_places_of(scan)),
        webhooks=scan.webhooks,
        full_tenants=list(scan.full_tenants),
        after_target=scan.after.target,
        after_tenant=scan.after.tenant_id,
        **_lanes_of(scan.lanes),
        now=now,
    )
    *claimed, scan_row = rows
    return DeliveryScanResult(
        server_time=scan_row["server_time"],
        lanes=scan_row["lanes"],
        saturated=scan_row["saturated"],
        next=Lane(scan_row["next_target"], scan_row["next_tenant"]),
        claimed=[ClaimedDelivery._make(row[:OF_DELIVERY]) for row in claimed],
        is_empty=scan_row["is_empty"],
    )


@dataclass(frozen=True, slots=True)
class DueLanes:
    """The endpoints with newly due deliveries, and the position where the next read begins."""

    lanes: Mapping[Lane, Position]  # for each lane, the position just before the soonest delivery that was read
    at: datetime
    more: Position | None  # the position of the last delivery that was read; None: all due deliveries were read


async def find_due_lanes(
    session: Session, behind: Position | None, *, deliveries: int, each: int, now: datetime | None = None
) -> DueLanes:
    """Find the endpoints of deliveries that became due after the position `behind`; None: in the last five seconds.

    shape: at most `deliveries` deliveries are read, and at most `each` endpoints of one tenant are returned
    errors:  StoreUnavailable  no answer before the timeout: ask again
    source:  sql/deliveries/find_due_lanes.sql
    """
    *rows, last = await session.rows(
        "find_due_lanes",
        behind_at=None if behind is None else behind.next_attempt_at,
        behind_key=None if behind is None else behind.timer_key,
        deliveries=deliveries,
        each=each,
        now=now,
    )
    more = None if last["timer_key"] is None else Position(last["next_attempt_at"], last["timer_key"])
    lanes = {
        Lane(row["target"], row["tenant_id"]): Position(row["next_attempt_at"], row["timer_key"] - 1) for row in rows
    }
    return DueLanes(lanes, last["next_attempt_at"], more)


def _places_of(scan: DeliveryScan) -> dict[str, int]:
    """Return only the entries of `places` for the lanes that the scan reads: a worker may have many other endpoints."""
    if scan.lanes is None:
        return dict(scan.places)
    names = {name for lane in scan.lanes for name in (lane.place, lane.target)}
    return {name: scan.places[name] for name in names if name in scan.places}


def _lanes_of(lanes: Mapping[Lane, Position] | None) -> dict[str, list[object] | None]:
    if lanes is None:
        return dict.fromkeys(("lane_targets", "lane_tenants", "behind_at", "behind_key"))
    return {
        "lane_targets": [lane.target for lane in lanes],
        "lane_tenants": [lane.tenant_id for lane in lanes],
        "behind_at": [position.next_attempt_at for position in lanes.values()],
        "behind_key": [position.timer_key for position in lanes.values()],
    }


class Renewal(NamedTuple):
    """The claims that were renewed, and the locked claims.

    All other claims of the call are lost: their deliveries have ended or were claimed by another worker. The claims in
    `locked` were not renewed, because a transaction has locked their deliveries; the ends of their leases did not
    change. No other worker can claim a delivery while it is locked. After the unlock, the first statement wins: it
    claims the delivery, or renews its lease.
    """

    renewed: frozenset[Claim] = frozenset()
    locked: frozenset[Claim] = frozenset()


async def renew_deliveries(
    session: Session,
    holder: int,
    deliveries: Sequence[HasClaim],
    *,
    lease_s: float,
    now: datetime | None = None,
) -> Renewal:
    """Renew the leases of claimed deliveries.

    errors:  StoreUnavailable  the outcome is unknown: renew again
    source:  sql/deliveries/renew_deliveries.sql
    """
    claims = [delivery.claim for delivery in deliveries]
    rows = await session.rows(
        "renew_deliveries",
        holder=holder,
        timer_keys=[timer_key for timer_key, _ in claims],
        claims=[number for _, number in claims],
        lease=timedelta(seconds=lease_s),
        now=now,
    )
    return Renewal(renewed=claims_of(rows, is_locked=False), locked=claims_of(rows, is_locked=True))


def claims_of(rows: Sequence[Record], *, is_locked: bool) -> frozenset[Claim]:
    """Return the claims of the locked rows, or of the rows that are not locked."""
    return frozenset((row["timer_key"], row["claims"]) for row in rows if row["is_locked"] is is_locked)
