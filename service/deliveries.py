"""List deliveries, cancel one, or make their next attempts due now.

The sentences name no options of the command line: the command line and the API each add their own advice.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from shardclock.api.codes import RefusalCode
from shardclock.api.refusals.deliveries import DELIVERY_CLAIMED, DELIVERY_DEAD, DELIVERY_ENDED, UNKNOWN_DELIVERY
from shardclock.log import LogRecord
from shardclock_server.service.bulk_wording import BulkResult, BulkWording
from shardclock_server.service.operation_verbs import RETRY
from shardclock_server.service.operations import Actor, in_one_step
from shardclock_server.sql.clients.history import records_of
from shardclock_server.sql.clients.verbs import TimerRef
from shardclock_server.sql.deliveries import verbs
from shardclock_server.sql.deliveries.find import (
    DeliveryCursor,
    DeliveryFilter,
    DeliveryState,
    FoundDelivery,
    find_deliveries,
    find_delivery,
)
from shardclock_server.sql.page_cursors import read_cursor, write_cursor
from shardclock_server.sql.session import Session
from shardclock_server.timers.refusal import Refusal

LISTED_MAX = 1_000  # The limit of rows on one page.
AT_ONCE_MAX = 10_000  # The largest number of deliveries that one statement changes.
ENDS = ("DELIVERED", "DISCARDED", "DEAD")

# The code of the refusal of a change, by the state of the delivery.
UNCHANGED: Mapping[str, RefusalCode] = {
    "IN_HAND": DELIVERY_CLAIMED,
    "DEAD": DELIVERY_DEAD,
    "DELIVERED": DELIVERY_ENDED,
    "DISCARDED": DELIVERY_ENDED,
    "UNKNOWN": UNKNOWN_DELIVERY,
}


def holder_name(delivery: DeliveryState) -> str:
    """Name the worker or the program that has claimed a delivery."""
    if delivery.holder is not None:
        return f"worker {delivery.holder:016x}"
    return "a program" if delivery.worker is None else f"program {delivery.worker}"


@dataclass(frozen=True, slots=True)
class DeliveryPage:
    """One page of deliveries. `next` is the argument `page` for the next page; None: this is the last page."""

    deliveries: list[FoundDelivery]
    next: str | None


@dataclass(frozen=True, slots=True)
class ShownDelivery:
    """A timer's delivery and the timer's last records; `delivery` is None if the delivery has ended."""

    delivery: DeliveryState | None
    records: Sequence[LogRecord]

    @property
    def tenant_id(self) -> str:
        """Return the tenant. A service task has no timer, so only the delivery or its last record names the tenant."""
        return self.delivery.tenant_id if self.delivery else self.records[0].tenant_id


@dataclass(frozen=True, slots=True)
class DeliveryResult:
    """The state of one delivery after a requested change, even if nothing had to be changed."""

    state: str
    sentence: str


async def page_of(session: Session, wanted: DeliveryFilter, *, size: int, page: str | None = None) -> DeliveryPage:
    """Find deliveries, ordered by target, tenant and the date of the next attempt.

    shape:   at most `size` deliveries
    errors:  Refusal           `page` is not the `next` of an earlier page
             StoreUnavailable  Postgres did not answer within the timeout
    """
    assert 0 < size <= LISTED_MAX
    after = read_cursor(DeliveryCursor, page, "from a list of deliveries")
    found = await find_deliveries(session, wanted, limit=size, after=after)
    return DeliveryPage(found, next=write_cursor(found[-1].cursor) if len(found) == size else None)


async def show(session: Session, timer_key: int) -> ShownDelivery | None:
    """Find a timer's delivery, or the record of its end; None: no delivery existed, or the log has deleted the record.

    errors:  StoreUnavailable  Postgres did not answer within the timeout
    """
    delivery = await find_delivery(session, timer_key)
    records = await records_of(session, TimerRef(timer_key))
    has_ended = any(record.intent in ENDS for record in records)
    return ShownDelivery(delivery, records) if delivery or has_ended else None


async def cancel(session: Session, timer_key: int, *, reason: str | None = None) -> DeliveryResult:
    """Cancel a delivery that no worker or program has claimed, so that no worker calls its target.

    errors:  Refusal           the state of the delivery does not allow the change
             StatementRefused  delivery_of_job, delivery_of_instance
             StoreUnavailable  the outcome is unknown: call again
    """
    state = await verbs.cancel_delivery(session, timer_key, reason=reason)
    return _answer(timer_key, state, {"DISCARDED": "the delivery of timer {key} is DISCARDED"})


async def retry(session: Session, timer_key: int) -> DeliveryResult:
    """Make the next attempt of a delivery due now.

    errors:  Refusal           the state of the delivery does not allow the change
             StoreUnavailable  the outcome is unknown: call again
    """
    state = await verbs.retry_delivery(session, timer_key)
    return _answer(timer_key, state, {"DUE": "the next attempt of timer {key}'s delivery is due now"})


async def retry_many(
    session: Session, wanted: DeliveryFilter, *, limit: int = AT_ONCE_MAX, dry_run: bool, by: Actor | None = None
) -> BulkResult[int]:
    """Make the next attempts of all matching delayed deliveries due now; the operation records the caller `by`.

    errors:  StoreUnavailable  the outcome is unknown: call again
    """
    assert 0 < limit <= AT_ONCE_MAX
    found = await find_deliveries(session, replace(wanted, delayed=True), limit=limit + 1)
    step = in_one_step(session, by, RETRY, wanted, {})
    retrying: BulkWording[FoundDelivery, int] = BulkWording(
        ("delivery", "deliveries"),
        none="no such delivery waits for its next attempt",
        would="be due now",
        done="{many} {are} due now",
        key_of=lambda delivery: delivery.timer_key,
        change=lambda selected: verbs.retry_deliveries(session, [delivery.timer_key for delivery in selected]),
    )
    return await retrying.run(found[:limit], more=len(found) > limit, dry_run=dry_run, step=step)


def _answer(timer_key: int, state: str, done: Mapping[str, str]) -> DeliveryResult:
    if state not in done:
        raise Refusal.of(UNCHANGED[state], timer_key=timer_key, state=state, members={"state": state})
    return DeliveryResult(state, done[state].format(key=timer_key))
