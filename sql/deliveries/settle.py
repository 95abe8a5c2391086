"""Settle how attempts ended: record the delivery's end, or say when the next attempt is due."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from sql.deliveries.claim import ClaimedDelivery
from sql.session import QUEUE_PLANS, Session

# Settling joins only rows that it has already read. A nested loop over them would take time by the square of the batch.
SETTLE_PLANS = QUEUE_PLANS | {"enable_nestloop": "off"}


class Ending(StrEnum):
    """How a delivery ends, as its record says."""

    DELIVERED = "DELIVERED"
    DISCARDED = "DISCARDED"
    DEAD = "DEAD"


@dataclass(frozen=True, slots=True)
class Settlement:
    """How one attempt ended. Without an ending, the next attempt is due in `delay_s`.

    `fails` says whether the attempt counts as failed: one that its worker gave back does not. `result` is JSON.
    """

    delivery: ClaimedDelivery
    ending: Ending | None
    fails: bool = False
    delay_s: float = 0.0
    duration_s: float = 0.0
    reason: str | None = None
    result: str | None = None


async def settle_deliveries(
    session: Session, holder: int, settlements: Sequence[Settlement], *, now: datetime | None = None
) -> frozenset[int]:
    """Settle attempts in one statement; return the keys of the deliveries that it settled.

    It is safe to send the same settlements again: what is settled is gone, or has been given another claim.

    shape:   each claim at most once; a missing key was claimed by somebody since, or is gone
    errors:  StoreUnavailable  the outcome is unknown: send the same settlements again
    source:  sql/deliveries/settle_deliveries.sql
    """
    rows = await session.rows(
        "settle_deliveries",
        holder=holder,
        timer_keys=[it.delivery.timer_key for it in settlements],
        claims=[it.delivery.claims for it in settlements],
        intents=[it.ending and it.ending.value for it in settlements],
        fails=[it.fails for it in settlements],
        delays=[timedelta(seconds=it.delay_s) for it in settlements],
        duration_ms=[round(it.duration_s * 1000) for it in settlements],
        reasons=[it.reason for it in settlements],
        results=[it.result for it in settlements],
        now=now,
    )
    return frozenset(row["timer_key"] for row in rows)
