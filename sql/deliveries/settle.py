"""Settle attempts that have ended: record the delivery's end, or set the due date of the next attempt."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple, TypeVar

from shardclock_server.sql.deliveries.claim import Claim, ClaimedDelivery, claims_of
from shardclock_server.sql.session import QUEUE_PLANS, Session

# The statement joins rows that it has already read. With nested loops, this join would take time in proportion to the
# square of the batch.
SETTLE_PLANS = QUEUE_PLANS | {"enable_nestloop": "off"}


ValueT = TypeVar("ValueT")


class DeliveryEnding(StrEnum):
    """The end of a delivery; each value is the intent of its log record."""

    DELIVERED = "DELIVERED"
    DISCARDED = "DISCARDED"
    DEAD = "DEAD"


class Settlement(NamedTuple):
    """The outcome of one attempt. If the delivery continues, its next attempt is due in `delay_s`.

    `fails`: whether the attempt counts as failed; None: its outcome is unknown. If `fails` is False and there is no
    ending, the worker released the delivery, and the attempt does not count. Without `delay_s` the due date does not
    change. `result` is JSON.

    shape:   a named tuple, because the creation of a frozen dataclass for each delivery takes five times as long
    """

    delivery: ClaimedDelivery
    ending: DeliveryEnding | None
    fails: bool | None = False
    delay_s: float | None = 0.0
    duration_s: float = 0.0
    reason: str | None = None
    result: str | None = None


class Unsettled(NamedTuple):
    """The claims that a call could not settle.

    A delivery in `lost` was claimed by another worker in the meantime, or has ended. A delivery in `locked` is
    unchanged; the caller settles it later.
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
    """Settle attempts in one statement; return the claims that could not be settled.

    It is safe to send the same settlements again: a settled delivery has no row, or a higher number of claims, so it
    does not match.

    shape:   each claim at most once; with `leaves_locked`, locked deliveries are not settled, and are returned
    errors:  StoreLocked       a transaction has locked a delivery: send the same settlements with `leaves_locked`
             StoreUnavailable  the outcome is unknown: send the same settlements again
    source:  sql/deliveries/settle_deliveries.sql
    """
    rows = await session.rows(
        "settle_deliveries",
        holder=holder,
        timer_keys=[it.delivery.timer_key for it in settlements],
        claims=[it.delivery.claims for it in settlements],
        duration_ms=[round(it.duration_s * 1000) for it in settlements],
        intents=_unless_all([it.ending for it in settlements], DeliveryEnding.DELIVERED),
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
    """Return the values, or [] if all values equal `usual`: this check is cheaper than the encoding of an array."""
    return [] if values.count(usual) == len(values) else values
