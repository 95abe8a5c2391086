"""Settle how attempts ended: record the delivery's end, or say when the next attempt is due."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple, TypeVar

from shardclock_server.sql.deliveries.claim import Claim, ClaimedDelivery, claims_of
from shardclock_server.sql.session import QUEUE_PLANS, Session

# Settling joins only rows that it has already read. A nested loop over them would take time by the square of the batch.
SETTLE_PLANS = QUEUE_PLANS | {"enable_nestloop": "off"}


ValueT = TypeVar("ValueT")


class Ending(StrEnum):
    """How a delivery ends, as its record says."""

    DELIVERED = "DELIVERED"
    DISCARDED = "DISCARDED"
    DEAD = "DEAD"


class Settlement(NamedTuple):
    """How one attempt ended. Without an ending, the next attempt is due in `delay_s`.

    `fails` says whether the attempt counts as failed: one that its worker gave back does not, and of some that were
    called nobody knows (None). Without `delay_s` it is due as it was. `result` is JSON.

    shape:   a tuple is made in a fifth of the time of a frozen dataclass, and each delivery needs one
    """

    delivery: ClaimedDelivery
    ending: Ending | None
    fails: bool | None = False
    delay_s: float | None = 0.0
    duration_s: float = 0.0
    reason: str | None = None
    result: str | None = None


class Unsettled(NamedTuple):
    """Which claims a call did not settle.

    What is in `lost` was claimed by somebody since, or is gone. What is in `locked` is as it was: send it again.
    """

    lost: frozenset[Claim] = frozenset()
    locked: frozenset[Claim] = frozenset()


async def settle_deliveries(
    session: Session,
    holder: int,
    settlements: Sequence[Settlement],
    *,
    leaves_locked: bool = False,
    now: datetime | None = None,
) -> Unsettled:
    """Settle attempts in one statement; return the claims that it did not settle.

    It is safe to send the same settlements again: what is settled is gone, or has been given another claim.

    shape:   each claim at most once; with `leaves_locked`, those that somebody has locked are left out, and returned
    errors:  StoreLocked       somebody has locked one of them: send them again with `leaves_locked`
             StoreUnavailable  the outcome is unknown: send the same settlements again
    source:  sql/deliveries/settle_deliveries.sql
    """
    rows = await session.rows(
        "settle_deliveries",
        holder=holder,
        timer_keys=[it.delivery.timer_key for it in settlements],
        claims=[it.delivery.claims for it in settlements],
        duration_ms=[round(it.duration_s * 1000) for it in settlements],
        intents=_unless_all([it.ending for it in settlements], Ending.DELIVERED),
        fails=_unless_all([it.fails for it in settlements], False),
        delays=_unless_all([_delay_of(it) for it in settlements], None),
        reasons=_unless_all([it.reason for it in settlements], None),
        results=_unless_all([it.result for it in settlements], None),
        leaves_locked=leaves_locked,
        now=now,
    )
    return Unsettled(lost=claims_of(rows, is_locked=False), locked=claims_of(rows, is_locked=True))


def _delay_of(settlement: Settlement) -> timedelta | None:
    if settlement.ending or settlement.delay_s is None:
        return None
    return timedelta(seconds=settlement.delay_s)


def _unless_all(values: list[ValueT], usual: ValueT) -> list[ValueT]:
    """Return the values, or none if all are the usual one: to encode an array costs more than to count in it."""
    return [] if values.count(usual) == len(values) else values
