"""Find deliveries: the state of one timer's delivery, and all open deliveries."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from pydantic import AwareDatetime

from shardclock_server.sql.page_cursors import Position
from shardclock_server.sql.session import Session

LAST_ERROR_CHARS = 1_000  # find_deliveries.sql has the same limit


@dataclass(frozen=True, slots=True)
class DeliveryState:
    """One delivery that is open (WAITING, IN_HAND) or was given up (DEAD).

    shape:   `holder` is the worker that has claimed the delivery; None if a program with the name `worker` has
             claimed it
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
        """Return the reason of the last failure, truncated for a list of deliveries."""
        failures = json.loads(self.failures or "[]")
        return failures[-1]["reason"][:LAST_ERROR_CHARS] if failures else None


@dataclass(frozen=True, slots=True)
class FoundDelivery:
    """One open delivery; `holder` and `worker` are as in `DeliveryState`."""

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
    def cursor(self) -> "DeliveryCursor":
        """Return the cursor of the page that begins after this row."""
        return DeliveryCursor(self.target, self.tenant_id, self.next_attempt_at, self.timer_key)


class DeliveryCursor(NamedTuple):
    """The cursor of a page in the list of open deliveries."""

    target: str
    tenant_id: str
    next_attempt_at: AwareDatetime
    timer_key: Position


@dataclass(frozen=True, slots=True)
class DeliveryFilter:
    """A filter of deliveries; a field that is None or False filters nothing.

    `failing` selects deliveries with a failed attempt, `delayed` deliveries with a next attempt that is not due yet,
    `reason_line` deliveries by the first line of the last failure's reason.
    """

    target: str | None = None
    tenant_id: str | None = None
    failing: bool = False
    delayed: bool = False
    reason_line: str | None = None


async def find_delivery(session: Session, timer_key: int) -> DeliveryState | None:
    """Find the delivery of a timer; None if there is no delivery, or if the delivery has ended and is only in the log.

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/deliveries/find_delivery.sql
    """
    row = await session.row("find_delivery", timer_key=timer_key)
    return DeliveryState(**dict(row)) if row else None


async def find_deliveries(
    session: Session, wanted: DeliveryFilter, *, limit: int, after: DeliveryCursor | None = None
) -> list[FoundDelivery]:
    """Find open deliveries, ordered by target, tenant and due date.

    shape:   at most `limit`, after the cursor `after`
    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/deliveries/find_deliveries.sql
    """
    rows = await session.rows(
        "find_deliveries",
        target=wanted.target,
        tenant_id=wanted.tenant_id,
        failing=wanted.failing,
        delayed=wanted.delayed,
        reason_line=wanted.reason_line,
        after_target=after and after.target,
        after_tenant=after and after.tenant_id,
        after_at=after and after.next_attempt_at,
        after_key=after and after.timer_key,
        limit=limit,
    )
    return [FoundDelivery(*row) for row in rows]
