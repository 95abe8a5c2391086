"""Find deliveries: what became of one timer's, and which are on their way."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from shardclock_server.sql.session import Session

LAST_ERROR_CHARS = 1_000  # as in find_deliveries.sql


@dataclass(frozen=True, slots=True)
class DeliveryState:
    """One delivery that is on its way (WAITING, IN_HAND) or was given up (DEAD).

    shape:   `holder` is the worker that has it in hand; None if a program has it, which calls itself `worker`
    """

    timer_key: int
    target: str
    tenant_id: str
    name: str | None
    state: str
    failed_attempts: int
    next_attempt_at: datetime | None
    holder: int | None
    worker: str | None
    claimed_until: datetime | None
    reason: str | None
    failures: str | None

    @property
    def last_error(self) -> str | None:
        """Return why the last attempt failed, its first characters, as a list of deliveries tells it."""
        failures = json.loads(self.failures or "[]")
        return failures[-1]["reason"][:LAST_ERROR_CHARS] if failures else None


@dataclass(frozen=True, slots=True)
class FoundDelivery:
    """One delivery that is on its way; who has it in hand is told as of a `DeliveryState`."""

    timer_key: int
    target: str
    tenant_id: str
    name: str | None
    state: str
    failed_attempts: int
    next_attempt_at: datetime
    holder: int | None
    worker: str | None
    claimed_until: datetime | None
    last_error: str | None

    @property
    def place(self) -> "Place":
        """Return behind what the next page begins if this is the last one of a page."""
        return Place(self.target, self.tenant_id, self.next_attempt_at, self.timer_key)


class Place(NamedTuple):
    """Where a delivery stands among all others."""

    target: str
    tenant_id: str
    next_attempt_at: datetime
    timer_key: int


@dataclass(frozen=True, slots=True)
class DeliveryFilter:
    """Which deliveries to find; a field that is None or False filters nothing.

    `failing` ones have a failed attempt; of `delayed` ones the next attempt is not due yet.
    """

    target: str | None = None
    tenant_id: str | None = None
    failing: bool = False
    delayed: bool = False


async def find_delivery(session: Session, timer_key: int) -> DeliveryState | None:
    """Find the delivery of a timer; None if it has none, or if it has ended, which only the log knows.

    errors:  StoreUnavailable  no answer in time
    source:  sql/deliveries/find_delivery.sql
    """
    row = await session.row("find_delivery", timer_key=timer_key)
    return DeliveryState(**dict(row)) if row else None


async def find_deliveries(
    session: Session, wanted: DeliveryFilter, *, limit: int, after: Place | None = None
) -> list[FoundDelivery]:
    """Find deliveries that are on their way, by target and tenant, what is due first coming first.

    shape:   at most `limit`, from behind the place `after` on
    errors:  StoreUnavailable  no answer in time
    source:  sql/deliveries/find_deliveries.sql
    """
    rows = await session.rows(
        "find_deliveries",
        target=wanted.target,
        tenant_id=wanted.tenant_id,
        failing=wanted.failing,
        delayed=wanted.delayed,
        after_target=after and after.target,
        after_tenant=after and after.tenant_id,
        after_at=after and after.next_attempt_at,
        after_key=after and after.timer_key,
        limit=limit,
    )
    return [FoundDelivery(*row) for row in rows]
