"""Prove that a redriven delivery gets all its attempts again, and that answers to earlier claims have no effect."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from shardclock_server.sql.deliveries.dead_letters import redrive_dead_letters
from tests.support.deliveries import WorkerClient, bury, dead, deliver, deliveries, done, failed, serving_worker
from tests.support.factories import HolderClient, query, seconds, value


@pytest.fixture
async def worker(dsn: str, shard: HolderClient) -> AsyncIterator[WorkerClient]:
    """Yield a worker with all slots that has claimed one delivery."""
    async with serving_worker(dsn) as hand:
        await deliver(shard)
        yield hand


async def test_a_redriven_delivery_begins_with_its_first_attempt_and_has_the_moment_of_its_redrive(
    dsn: str, worker: WorkerClient
) -> None:
    (mine,) = await worker.take()
    await worker.settle(failed(mine, delay_s=0.0))
    (mine,) = await worker.take()
    await worker.settle(dead(mine))

    assert await redrive_dead_letters(worker.settles, [mine.timer_key]) == [mine.timer_key]

    (again,) = await worker.take()
    assert (again.failed_attempts, again.fired_at, again.due_date) == (0, mine.fired_at, mine.due_date)
    assert mine.redriven_at is None
    assert again.redriven_at == again.next_attempt_at
    assert again.claims - again.given_back == 1, "earlier claims do not count against the delivery"
    (row,) = await deliveries(dsn)
    assert row["failures"] is not None, "the former failures are kept"


@pytest.mark.parametrize("late", [done, failed, dead])
async def test_an_answer_to_an_earlier_claim_changes_nothing_even_from_the_same_worker(
    dsn: str, worker: WorkerClient, late: Any
) -> None:
    # The worker was silent for longer than its lease, and in that time another worker gave up the delivery.
    (mine,) = await worker.take()
    await worker.settle(dead(mine))
    await redrive_dead_letters(worker.settles, [mine.timer_key])
    (again,) = await worker.take()

    assert await worker.settle(late(mine)) == frozenset()

    assert len(await deliveries(dsn)) == 1
    assert await worker.settle(done(again)) == {again.claim}
    assert await value(dsn, "select count(*) from shardclock.command_log where intent = 'DELIVERED'") == 1


async def test_at_a_rate_each_redriven_delivery_begins_when_it_is_due(dsn: str, worker: WorkerClient) -> None:
    """Otherwise give_up_after would end the last deliveries of a slow redrive before their first attempt."""
    await query(dsn, "delete from shardclock.deliveries")
    await bury(dsn, 3)

    assert len(await redrive_dead_letters(worker.settles, [1, 2, 3], per_s=1)) == 3

    first, second, third = await deliveries(dsn)
    assert [third["redriven_at"] - it["redriven_at"] for it in (first, second)] == [seconds(2), seconds(1)]
    assert all(it["redriven_at"] == it["next_attempt_at"] for it in (first, second, third))
