"""Look at deliveries that are on their way, end one, or make next attempts due now; say what was done and what is left.

An answer says what is true now, and names no option of the command line: each interface adds its own way out.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from shardclock.log import LogRecord
from shardclock_server.service.many import Changed, Many
from shardclock_server.sql.clients.history import records_of
from shardclock_server.sql.clients.verbs import TimerRef
from shardclock_server.sql.deliveries import verbs
from shardclock_server.sql.deliveries.find import (
    DeliveryFilter,
    DeliveryState,
    FoundDelivery,
    Place,
    find_deliveries,
    find_delivery,
)
from shardclock_server.sql.session import Session, StatementRefused
from shardclock_server.timers.model import BIGINT_MAX
from shardclock_server.timers.refusal import Refusal, shortened

LISTED_MAX = 1_000  # on one page
AT_ONCE_MAX = 10_000  # the most that one statement changes
WRONG_STATE = "55000"  # with which the function refuses to cancel what a job or an instance waits for
ENDS = ("DELIVERED", "DISCARDED", "DEAD")

# What a delivery is that a change leaves as it is.
LEFT: Mapping[str, str] = {
    "IN_HAND": "a worker or a program has the delivery of timer {key} in hand now; nothing was changed",
    "DEAD": "the delivery of timer {key} was given up already: it is a dead letter",
    "DELIVERED": "too late: the delivery of timer {key} is DELIVERED already",
    "DISCARDED": "too late: the delivery of timer {key} is DISCARDED already",
    "UNKNOWN": "timer {key} has no delivery",
}


def in_hand_of(delivery: DeliveryState) -> str:
    """Name who has a delivery in hand."""
    if delivery.holder is not None:
        return f"worker {delivery.holder:016x}"
    return "a program" if delivery.worker is None else f"program {delivery.worker}"


class DeliveryConflict(StatementRefused):
    """A job or an instance waits for a delivery, so it can't be cancelled; the message says what to do instead."""


@dataclass(frozen=True, slots=True)
class DeliveryPage:
    """Some of the deliveries found, and the next call's `page`; None: there are no more."""

    deliveries: list[FoundDelivery]
    next: str | None


@dataclass(frozen=True, slots=True)
class ShownDelivery:
    """What became of a timer's delivery: what it is now, None if it has ended, and the timer's last records."""

    delivery: DeliveryState | None
    records: Sequence[LogRecord]

    @property
    def tenant_id(self) -> str:
        """Return whose it is: of a service task only the delivery and the record of its end tell that."""
        return self.delivery.tenant_id if self.delivery else self.records[0].tenant_id


@dataclass(frozen=True, slots=True)
class Answer:
    """What one delivery is now; `done` says whether that is what was asked for."""

    state: str
    sentence: str
    done: bool


async def page_of(session: Session, wanted: DeliveryFilter, *, size: int, page: str | None = None) -> DeliveryPage:
    """Find deliveries that are on their way, by target and tenant, what is due first coming first.

    shape:   at most `size` deliveries
    errors:  Refusal           no such page
             StoreUnavailable  no answer in time
    """
    assert 0 < size <= LISTED_MAX
    found = await find_deliveries(session, wanted, limit=size, after=None if page is None else _place_of(page))
    return DeliveryPage(found, next=_written(found[-1].place) if len(found) == size else None)


async def show(session: Session, timer_key: int) -> ShownDelivery | None:
    """Find what became of a timer's delivery; None if it never had one, or the log has forgotten it.

    errors:  StoreUnavailable  no answer in time
    """
    delivery = await find_delivery(session, timer_key)
    records = await records_of(session, TimerRef(timer_key))
    has_ended = any(record.intent in ENDS for record in records)
    return ShownDelivery(delivery, records) if delivery or has_ended else None


async def cancel(session: Session, timer_key: int, *, reason: str | None = None) -> Answer:
    """End a delivery that nobody has in hand: its target is not called any more.

    errors:  DeliveryConflict  it is a start of a job, or an instance waits for it
             StoreUnavailable  the outcome is unknown: call again
    """
    try:
        state = await verbs.cancel_delivery(session, timer_key, reason=reason)
    except StatementRefused as error:
        if error.sqlstate != WRONG_STATE:
            raise
        raise DeliveryConflict(str(error), sqlstate=error.sqlstate) from None
    return _answer(timer_key, state, {"DISCARDED": "the delivery of timer {key} is DISCARDED"})


async def retry(session: Session, timer_key: int) -> Answer:
    """Make the next attempt of a delivery due now.

    errors:  StoreUnavailable  the outcome is unknown: call again
    """
    state = await verbs.retry_delivery(session, timer_key)
    return _answer(timer_key, state, {"DUE": "the next attempt of timer {key}'s delivery is due now"})


async def retry_many(
    session: Session, wanted: DeliveryFilter, *, limit: int = AT_ONCE_MAX, dry_run: bool
) -> Changed[int]:
    """Make the next attempts of all deliveries that wait for them due now.

    errors:  StoreUnavailable  the outcome is unknown: call again
    """
    assert 0 < limit <= AT_ONCE_MAX
    found = await find_deliveries(session, replace(wanted, delayed=True), limit=limit + 1)
    retrying: Many[FoundDelivery, int] = Many(
        ("delivery", "deliveries"),
        none="no such delivery waits for its next attempt",
        would="be due now",
        done="{many} {are} due now",
        key_of=lambda delivery: delivery.timer_key,
        change=lambda meant: verbs.retry_deliveries(session, [delivery.timer_key for delivery in meant]),
    )
    return await retrying.do(found[:limit], more=len(found) > limit, dry_run=dry_run)


def _answer(timer_key: int, state: str, done: Mapping[str, str]) -> Answer:
    return Answer(state, (done.get(state) or LEFT[state]).format(key=timer_key), state in done)


def _written(place: Place) -> str:
    return json.dumps([*place[:2], place.next_attempt_at.isoformat(), place.timer_key])


def _place_of(page: str) -> Place:
    try:
        target, tenant_id, next_attempt_at, timer_key = json.loads(page)
        place = Place(str(target), str(tenant_id), datetime.fromisoformat(next_attempt_at), int(timer_key))
        if place.next_attempt_at.tzinfo is not None and 0 <= place.timer_key <= BIGINT_MAX:
            return place
    except (ValueError, TypeError, OverflowError):
        pass
    raise Refusal(f"page {shortened(page)} is not one that a list of deliveries gave")
