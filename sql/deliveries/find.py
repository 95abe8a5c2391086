"""Find what became of a timer's delivery."""

from dataclasses import dataclass
from datetime import datetime

from sql.session import Session


@dataclass(frozen=True, slots=True)
class DeliveryState:
    """One delivery that is on its way (WAITING, IN_HAND) or was given up (DEAD)."""

    timer_key: int
    target: str
    state: str
    failed_attempts: int
    next_attempt_at: datetime | None
    holder: int | None
    reason: str | None
    failures: str | None


async def find_delivery(session: Session, timer_key: int) -> DeliveryState | None:
    """Find the delivery of a timer; None if it has none, or if it has ended, which only the log knows.

    errors:  StoreUnavailable  no answer in time
    source:  sql/deliveries/find_delivery.sql
    """
    row = await session.row("find_delivery", timer_key=timer_key)
    return DeliveryState(**dict(row)) if row else None
