"""Claim deliveries that are due, and renew the leases of those that take long."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from sql.session import Session


class Lane(NamedTuple):
    """One target's deliveries of one tenant. No lane keeps another waiting."""

    target: str
    tenant_id: str

    @property
    def place(self) -> str:
        """Return the name of an endpoint's entry in `DeliveryScan.places`."""
        return f"{self.target} {self.tenant_id}"


BEGINNING = Lane("", "")
OF_SCAN = 5  # columns of a claim that tell of the scan; those of a delivery follow


class ClaimedDelivery(NamedTuple):
    """One delivery that a worker has in hand; `claims` is how often it was claimed, which is the fence.

    shape:   the last columns of the claim, in their order: making a tuple of a row costs a tenth of a dataclass
    """

    timer_key: int
    process_instance_key: int | None
    element_instance_key: int | None
    due_date: datetime
    created_at: datetime
    fired_at: datetime
    next_attempt_at: datetime
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


@dataclass(frozen=True, slots=True)
class DeliveryScan:
    """Which deliveries to look for.

    `places` says how many are taken of a target, which its tenants share; without an entry, the whole batch. Of an
    endpoint's lane, the entry is its `place`; without one, `webhooks` are taken. The scan begins after `after`.
    """

    targets: Collection[str]
    batch: int
    webhooks: int = 0
    places: Mapping[str, int] = field(default_factory=dict)
    after: Lane = BEGINNING


@dataclass(frozen=True, slots=True)
class DeliveryScanResult:
    """What one scan claimed; `saturated` says that there may be more, `next` is the next scan's `after`."""

    server_time: datetime
    lanes: int
    saturated: bool
    next: Lane
    claimed: list[ClaimedDelivery]


async def claim_deliveries(
    session: Session, holder: int, scan: DeliveryScan, *, lease_s: float, now: datetime | None = None
) -> DeliveryScanResult:
    """Claim deliveries of the holder's slots that are due, a fair share of every lane.

    shape:   at most `batch` deliveries, soonest first; often none
    errors:  StoreUnavailable  no answer in time: leases that were taken run out by themselves
    source:  sql/deliveries/claim_deliveries.sql
    """
    rows = await session.rows(
        "claim_deliveries",
        holder=holder,
        lease=timedelta(seconds=lease_s),
        batch=scan.batch,
        targets=list(scan.targets),
        places=json.dumps(dict(scan.places)),
        webhooks=scan.webhooks,
        after_target=scan.after.target,
        after_tenant=scan.after.tenant_id,
        now=now,
    )
    first = rows[0]
    return DeliveryScanResult(
        server_time=first["server_time"],
        lanes=first["lanes"],
        saturated=first["saturated"],
        next=Lane(first["next_target"], first["next_tenant"]),
        claimed=[] if first["timer_key"] is None else [ClaimedDelivery._make(row[OF_SCAN:]) for row in rows],
    )


async def renew_deliveries(
    session: Session,
    holder: int,
    deliveries: Sequence[ClaimedDelivery],
    *,
    lease_s: float,
    now: datetime | None = None,
) -> frozenset[int]:
    """Renew the leases of deliveries in hand; return the keys of those that are still the holder's.

    errors:  StoreUnavailable  the outcome is unknown: renew again
    source:  sql/deliveries/renew_deliveries.sql
    """
    rows = await session.rows(
        "renew_deliveries",
        holder=holder,
        timer_keys=[delivery.timer_key for delivery in deliveries],
        claims=[delivery.claims for delivery in deliveries],
        lease=timedelta(seconds=lease_s),
        now=now,
    )
    return frozenset(row["timer_key"] for row in rows)
