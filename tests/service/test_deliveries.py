"""The answers about deliveries that are shown, retried or cancelled, for all interfaces."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from shardclock.api.refusals.deliveries import (
    DELIVERY_CLAIMED,
    DELIVERY_DEAD,
    DELIVERY_ENDED,
    DELIVERY_OF_JOB,
    UNKNOWN_DELIVERY,
)
from shardclock_server.service import deliveries
from shardclock_server.service.bulk_wording import BulkResult
from shardclock_server.service.deliveries import DeliveryResult
from shardclock_server.sql.deliveries.find import DeliveryFilter
from shardclock_server.sql.session import Session
from shardclock_server.timers.refusal import Refusal
from tests.support.deliveries import HANDLER, WorkerClient, add_deliveries, dead, deliver, done, failed, serving_worker
from tests.support.factories import HolderClient
from tests.support.refusals import refusing

EACH = DeliveryFilter()


@pytest.fixture
async def worker(dsn: str) -> AsyncIterator[WorkerClient]:
    """Start a worker that holds all slots."""
    async with serving_worker(dsn) as hand:
        yield hand


async def test_each_state_has_its_code(operator: Session, shard: HolderClient, worker: WorkerClient) -> None:
    (key,) = await deliver(shard)
    with refusing(UNKNOWN_DELIVERY):
        await deliveries.cancel(operator, key + 1)
    (mine,) = await worker.take()
    with refusing(DELIVERY_CLAIMED):
        await deliveries.cancel(operator, key)
    await worker.settle(failed(mine))
    due = await deliveries.retry(operator, key)
    (mine,) = await worker.take()
    await worker.settle(dead(mine))
    with refusing(DELIVERY_DEAD):
        await deliveries.retry(operator, key)

    assert due == DeliveryResult("DUE", f"the next attempt of timer {key}'s delivery is due now")


async def test_a_change_of_an_ended_delivery_is_too_late_unless_the_delivery_has_the_requested_end(
    operator: Session, shard: HolderClient, worker: WorkerClient
) -> None:
    first, second = await deliver(shard, 2)
    await worker.settle(*map(done, await worker.take(batch=1)))

    with refusing(DELIVERY_ENDED):
        await deliveries.cancel(operator, first)
    cancelled = DeliveryResult("DISCARDED", f"the delivery of timer {second} is DISCARDED")
    assert await deliveries.cancel(operator, second) == cancelled
    assert await deliveries.cancel(operator, second) == cancelled
    with refusing(DELIVERY_ENDED):
        await deliveries.retry(operator, second)


async def test_a_start_of_a_job_is_not_cancelled(dsn: str, operator: Session) -> None:
    await add_deliveries(dsn, 1, "job:refresh")

    with refusing(DELIVERY_OF_JOB):
        await deliveries.cancel(operator, 1)


async def test_a_delivery_is_shown_with_its_records_even_after_its_end(
    operator: Session, shard: HolderClient, worker: WorkerClient
) -> None:
    (key,) = await deliver(shard)
    waiting = await deliveries.show(operator, key)
    await worker.settle(*map(done, await worker.take()))
    ended = await deliveries.show(operator, key)

    assert waiting
    assert waiting.delivery
    assert waiting.delivery.state == "WAITING"
    assert ended
    assert ended.delivery is None
    assert [record.intent for record in ended.records] == ["DELIVERED", "TRIGGERED"]
    assert await deliveries.show(operator, key + 1) is None


async def test_many_deliveries_are_retried_up_to_the_limit_and_a_dry_run_changes_nothing(
    dsn: str, operator: Session
) -> None:
    await add_deliveries(dsn, 3, next_attempt_at="now() + i * interval '1 h'")
    await add_deliveries(dsn, 2)
    await add_deliveries(dsn, 1, "cart.left", next_attempt_at="now() + interval '1 h'")
    wanted = DeliveryFilter(HANDLER)

    would = await deliveries.retry_many(operator, wanted, limit=2, dry_run=True)
    first = await deliveries.retry_many(operator, wanted, limit=2, dry_run=False)
    rest = await deliveries.retry_many(operator, wanted, limit=2, dry_run=False)
    none = await deliveries.retry_many(operator, wanted, dry_run=False)

    sentence = "2 deliveries would be due now, and there are more; nothing was changed"
    assert would == BulkResult([1, 2], sentence, more=True)
    assert (sorted(first.keys), first.sentence, first.more) == ([1, 2], "2 deliveries are due now", True)
    assert rest == BulkResult([3], "1 delivery is due now", more=False)
    assert none == BulkResult([], "no such delivery waits for its next attempt", more=False)
    left = await deliveries.page_of(operator, DeliveryFilter(delayed=True), size=9)
    assert [it.timer_key for it in left.deliveries] == [6]


async def test_a_page_has_the_token_of_the_next_page_and_any_other_text_is_refused_as_a_token(
    dsn: str, operator: Session
) -> None:
    await add_deliveries(dsn, 5, tenant_id="'a ' || i")
    first = await deliveries.page_of(operator, EACH, size=3)
    second = await deliveries.page_of(operator, EACH, size=3, page=first.next)

    assert [it.timer_key for it in (*first.deliveries, *second.deliveries)] == [1, 2, 3, 4, 5]
    assert second.next is None
    for page in ("", "7", "[]", '["a", "b", "yesterday", 1]', '["a", "b", "2031-01-01T00:00:00", 1]',
                 '["a", "b", "2031-01-01T00:00:00Z", 9999999999999999999]', '["a", "b", 7, 1]'):  # fmt: skip
        with pytest.raises(Refusal, match="is not from a list of deliveries"):
            await deliveries.page_of(operator, EACH, size=3, page=page)
