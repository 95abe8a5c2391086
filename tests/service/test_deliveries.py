"""Prove what is said of deliveries that are shown, retried or cancelled, as any interface calls it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from shardclock_server.service import deliveries
from shardclock_server.service.deliveries import Answer
from shardclock_server.service.many import Changed
from shardclock_server.sql.deliveries.find import DeliveryFilter
from shardclock_server.sql.session import Session
from shardclock_server.timers.refusal import Refusal
from tests.support.deliveries import (
    HANDLER,
    WorkerClient,
    add_deliveries,
    add_worker,
    dead,
    declare,
    deliver,
    done,
    failed,
)
from tests.support.factories import HolderClient

EACH = DeliveryFilter()


@pytest.fixture
async def worker(dsn: str) -> AsyncIterator[WorkerClient]:
    """Give a worker that keeps all slots."""
    await declare(dsn, HANDLER)
    await add_worker(dsn, 11)
    async with WorkerClient(dsn, 11) as hand:
        yield hand


async def test_each_state_has_its_sentence(operator: Session, shard: HolderClient, worker: WorkerClient) -> None:
    (key,) = await deliver(shard)
    unknown = await deliveries.cancel(operator, key + 1)
    (mine,) = await worker.take()
    in_hand = await deliveries.cancel(operator, key)
    await worker.settle(failed(mine))
    due = await deliveries.retry(operator, key)
    (mine,) = await worker.take()
    await worker.settle(dead(mine))
    given_up = await deliveries.retry(operator, key)

    assert unknown == Answer("UNKNOWN", f"timer {key + 1} has no delivery", done=False)
    assert in_hand == Answer(
        "IN_HAND", f"a worker or a program has the delivery of timer {key} in hand now; nothing was changed", done=False
    )
    assert due == Answer("DUE", f"the next attempt of timer {key}'s delivery is due now", done=True)
    assert given_up == Answer(
        "DEAD", f"the delivery of timer {key} was given up already: it is a dead letter", done=False
    )


async def test_what_has_ended_is_said_to_be_too_late_unless_that_was_asked_for(
    operator: Session, shard: HolderClient, worker: WorkerClient
) -> None:
    first, second = await deliver(shard, 2)
    await worker.settle(*map(done, await worker.take(batch=1)))

    assert await deliveries.cancel(operator, first) == Answer(
        "DELIVERED", f"too late: the delivery of timer {first} is DELIVERED already", done=False
    )
    cancelled = Answer("DISCARDED", f"the delivery of timer {second} is DISCARDED", done=True)
    assert await deliveries.cancel(operator, second) == cancelled
    assert await deliveries.cancel(operator, second) == cancelled
    assert not (await deliveries.retry(operator, second)).done


async def test_a_start_of_a_job_is_not_cancelled(dsn: str, operator: Session) -> None:
    await add_deliveries(dsn, 1, "job:refresh")

    with pytest.raises(deliveries.DeliveryConflict, match='a start of job "refresh"'):
        await deliveries.cancel(operator, 1)


async def test_one_is_shown_with_its_records_also_when_it_has_ended(
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


async def test_many_are_retried_a_part_at_a_time_and_a_dry_run_changes_nothing(dsn: str, operator: Session) -> None:
    await add_deliveries(dsn, 3, next_attempt_at="now() + i * interval '1 h'")
    await add_deliveries(dsn, 2)
    await add_deliveries(dsn, 1, "cart.left", next_attempt_at="now() + interval '1 h'")
    wanted = DeliveryFilter(HANDLER)

    would = await deliveries.retry_many(operator, wanted, limit=2, dry_run=True)
    first = await deliveries.retry_many(operator, wanted, limit=2, dry_run=False)
    rest = await deliveries.retry_many(operator, wanted, limit=2, dry_run=False)
    none = await deliveries.retry_many(operator, wanted, dry_run=False)

    sentence = "2 deliveries would be due now, and there are more; nothing was changed"
    assert would == Changed([1, 2], sentence, more=True)
    assert (sorted(first.keys), first.sentence, first.more) == ([1, 2], "2 deliveries are due now", True)
    assert rest == Changed([3], "1 delivery is due now", more=False)
    assert none == Changed([], "no such delivery waits for its next attempt", more=False)
    left = await deliveries.page_of(operator, DeliveryFilter(delayed=True), size=9)
    assert [it.timer_key for it in left.deliveries] == [6]


async def test_a_page_leads_to_the_next_and_any_other_text_is_refused(dsn: str, operator: Session) -> None:
    await add_deliveries(dsn, 5, tenant_id="'a ' || i")
    first = await deliveries.page_of(operator, EACH, size=3)
    second = await deliveries.page_of(operator, EACH, size=3, page=first.next)

    assert [it.timer_key for it in (*first.deliveries, *second.deliveries)] == [1, 2, 3, 4, 5]
    assert second.next is None
    for page in ("", "7", "[]", '["a", "b", "yesterday", 1]', '["a", "b", "2031-01-01T00:00:00", 1]',
                 '["a", "b", "2031-01-01T00:00:00Z", 9999999999999999999]', '["a", "b", 7, 1]'):  # fmt: skip
        with pytest.raises(Refusal, match="is not one that a list of deliveries gave"):
            await deliveries.page_of(operator, EACH, size=3, page=page)
