"""Prove that each attempt is settled once, by the worker that has claimed the delivery."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from shardclock_server.sql.deliveries.claim import renew_deliveries
from shardclock_server.sql.deliveries.settle import DeliveryEnding, Settlement
from tests.support.deliveries import WorkerClient, add_worker, dead, deliver, deliveries, done, failed, serving_worker
from tests.support.factories import HolderClient, query, recorded

pytestmark = pytest.mark.each_version


@pytest.fixture
async def worker(dsn: str, shard: HolderClient) -> AsyncIterator[WorkerClient]:
    """Yield a worker with all slots and its own clock."""
    async with serving_worker(dsn) as hand:
        yield hand


@pytest.fixture
async def another(dsn: str) -> AsyncIterator[WorkerClient]:
    """Yield another worker that also believes that it has all slots."""
    await add_worker(dsn, 12)
    async with WorkerClient(dsn, 12) as hand:
        yield hand


async def moment(shard: HolderClient, *workers: WorkerClient) -> None:
    for worker in workers:
        worker.now = await shard.value("select now()")


async def details(dsn: str) -> list[tuple[str, dict[str, Any] | None]]:
    """Read the intent and detail of each record of an ended delivery."""
    rows = await query(
        dsn, "select intent, detail from shardclock.command_log where intent <> 'TRIGGERED' order by position"
    )
    return [(row["intent"], json.loads(row["detail"])) for row in rows]


async def test_a_delivered_delivery_is_deleted_and_recorded_with_attempt_and_duration(
    dsn: str, shard: HolderClient, worker: WorkerClient
) -> None:
    (key,) = await deliver(shard)
    (mine,) = await worker.take()

    assert await worker.settle(done(mine)) == {mine.claim}

    assert await deliveries(dsn) == []
    assert await recorded(dsn) == [(key, "TRIGGERED"), (key, "DELIVERED")]
    assert await details(dsn) == [("DELIVERED", {"attempt": 1, "ms": 3})]
    assert await worker.settle(done(mine)) == frozenset(), "sent again, it changes nothing"
    assert len(await recorded(dsn)) == 2


async def test_a_failed_attempt_is_due_again_like_any_timer(
    dsn: str, shard: HolderClient, worker: WorkerClient
) -> None:
    await deliver(shard)
    await moment(shard, worker)
    assert worker.now is not None
    (mine,) = await worker.take()

    assert await worker.settle(failed(mine, delay_s=60.0)) == {mine.claim}

    assert await worker.take() == []
    worker.now += timedelta(seconds=59.9)
    assert await worker.take() == []
    worker.now += timedelta(seconds=0.2)
    (again,) = await worker.take()
    assert (again.claims, again.failed_attempts, again.payload) == (2, 1, mine.payload)
    (row,) = await deliveries(dsn)
    (failure,) = json.loads(row["failures"])
    assert (failure["attempt"], failure["reason"], failure["worker"]) == (1, "it raised", f"{11:016x}")
    assert await details(dsn) == [], "only an end is recorded"


async def test_a_dead_delivery_is_kept_with_its_envelope_and_its_attempts(
    dsn: str, shard: HolderClient, worker: WorkerClient
) -> None:
    (key,) = await deliver(shard, payload="'{\"order\": 42}'", tenant_id="'acme'", name="'cart'")
    (mine,) = await worker.take()
    await worker.settle(failed(mine, delay_s=0.0))
    (mine,) = await worker.take()

    assert await worker.settle(dead(mine)) == {mine.claim}

    (letter,) = await query(dsn, "select * from shardclock.dead_letters")
    assert (letter["timer_key"], letter["failed_attempts"], letter["reason"]) == (key, 2, "it raised too often")
    assert (json.loads(letter["payload"]), letter["tenant_id"], letter["name"]) == ({"order": 42}, "acme", "cart")
    assert [one["reason"] for one in json.loads(letter["failures"])] == ["it raised", "it raised too often"]
    assert await details(dsn) == [("DEAD", {"attempt": 2, "ms": 3, "reason": "it raised too often"})]
    assert await deliveries(dsn) == []


async def test_a_delivery_given_back_uses_no_attempt_and_is_due_at_once(
    dsn: str, shard: HolderClient, worker: WorkerClient, another: WorkerClient
) -> None:
    (key,) = await deliver(shard)
    (mine,) = await worker.take()

    assert await worker.settle(Settlement(mine, None)) == {mine.claim}

    (theirs,) = await another.take()
    assert (theirs.timer_key, theirs.failed_attempts, theirs.given_back) == (key, 0, 1)
    assert (await deliveries(dsn))[0]["failures"] is None


async def test_a_delivery_given_back_unchanged_keeps_its_due_time(
    dsn: str, shard: HolderClient, worker: WorkerClient
) -> None:
    await deliver(shard)
    (mine,) = await worker.take()

    await worker.settle(Settlement(mine, None, delay_s=None))

    (row,) = await deliveries(dsn)
    assert (row["next_attempt_at"], row["claimed_by"]) == (mine.next_attempt_at, None)


async def test_a_called_delivery_with_an_unknown_end_counts_its_claim(
    dsn: str, shard: HolderClient, worker: WorkerClient
) -> None:
    await deliver(shard, 2)
    one, other = await worker.take()

    await worker.settle(Settlement(one, None, fails=None), Settlement(other, None, fails=True))

    assert [(row["failed_attempts"], row["given_back"], row["claims"]) for row in await deliveries(dsn)] == [
        (0, 0, 1),
        (1, 0, 1),
    ]


async def test_answers_for_two_claims_of_one_worker_end_the_delivery_once(
    dsn: str, shard: HolderClient, worker: WorkerClient
) -> None:
    (key,) = await deliver(shard)
    await moment(shard, worker)
    assert worker.now is not None
    (first,) = await worker.take()
    worker.now += timedelta(seconds=11)  # the lease has ended, and the first call still runs
    (second,) = await worker.take()

    assert await worker.settle(done(first), done(second)) == {second.claim}

    assert await recorded(dsn) == [(key, "TRIGGERED"), (key, "DELIVERED")]
    assert await details(dsn) == [("DELIVERED", {"attempt": 1, "ms": 3})]


@pytest.mark.parametrize("late", [done, failed, dead])
async def test_an_answer_after_another_worker_s_claim_changes_nothing(
    dsn: str, shard: HolderClient, worker: WorkerClient, another: WorkerClient, late: Any
) -> None:
    (key,) = await deliver(shard)
    await moment(shard, worker, another)
    assert another.now is not None
    (mine,) = await worker.take()
    another.now += timedelta(seconds=11)
    (theirs,) = await another.take()

    assert await worker.settle(late(mine)) == frozenset()

    assert (await deliveries(dsn))[0]["claimed_by"] == 12
    assert await another.settle(done(theirs)) == {theirs.claim}
    assert await recorded(dsn) == [(key, "TRIGGERED"), (key, "DELIVERED")]


async def test_an_older_claim_of_the_same_worker_is_also_fenced(
    dsn: str, shard: HolderClient, worker: WorkerClient
) -> None:
    await deliver(shard)
    await moment(shard, worker)
    assert worker.now is not None
    (older,) = await worker.take()
    worker.now += timedelta(seconds=11)
    (newer,) = await worker.take()

    assert await worker.settle(failed(older)) == frozenset()
    assert await worker.settle(done(newer)) == {newer.claim}


@pytest.mark.parametrize(
    ("ends", "left"),
    [
        ((done, done), []),
        ((done, dead), []),
        ((dead, done), []),
        ((failed, done), []),
        ((done, failed), [1]),
        ((failed, failed), [1]),
    ],
)
async def test_only_the_newer_of_two_claims_of_a_worker_in_one_batch_counts(
    dsn: str, shard: HolderClient, worker: WorkerClient, ends: tuple[Any, Any], left: list[int]
) -> None:
    # Postgres was unavailable for longer than a lease: the worker claimed its deliveries again, and both calls have
    # ended.
    await deliver(shard)
    await moment(shard, worker)
    assert worker.now is not None
    (older,) = await worker.take()
    worker.now += timedelta(seconds=11)
    (newer,) = await worker.take()

    old_end, new_end = ends
    assert await worker.settle(old_end(older), new_end(newer)) == {newer.claim}

    assert [row["failed_attempts"] for row in await deliveries(dsn)] == left
    ending = {done: "DELIVERED", dead: "DEAD"}.get(new_end)
    assert [intent for intent, _ in await details(dsn)] == ([ending] if ending else [])


async def test_a_renewed_lease_lasts_and_a_lost_one_is_reported(
    dsn: str, shard: HolderClient, worker: WorkerClient, another: WorkerClient
) -> None:
    await deliver(shard, 2)
    await moment(shard, worker, another)
    assert worker.now is not None
    assert another.now is not None
    kept, lost = await worker.take()
    at_8_s = worker.now + timedelta(seconds=8)
    renewal = await renew_deliveries(worker.claims, 11, [kept], lease_s=10.0, now=at_8_s)
    assert renewal == (frozenset([kept.claim]), frozenset())
    another.now += timedelta(seconds=11)
    assert [it.timer_key for it in await another.take()] == [lost.timer_key]

    renewal = await renew_deliveries(worker.claims, 11, [kept, lost], lease_s=10.0, now=at_8_s)
    assert renewal == (frozenset([kept.claim]), frozenset())


async def test_all_outcomes_are_settled_in_one_statement(dsn: str, shard: HolderClient, worker: WorkerClient) -> None:
    await deliver(shard, 5)
    one, two, three, four, five = await worker.take()

    settled = await worker.settle(
        done(one),
        failed(two),
        dead(three),
        Settlement(four, DeliveryEnding.DISCARDED, reason="not worth it"),
        Settlement(five, None),
    )

    assert len(settled) == 5
    assert {row["timer_key"] for row in await deliveries(dsn)} == {two.timer_key, five.timer_key}
    assert [intent for intent, _ in await details(dsn)] == ["DELIVERED", "DEAD", "DISCARDED"]


async def test_the_first_and_the_last_of_many_failures_are_kept(
    dsn: str, shard: HolderClient, worker: WorkerClient
) -> None:
    await deliver(shard)
    for number in range(1, 15):
        (mine,) = await worker.take()
        await worker.settle(failed(mine, delay_s=0.0, reason=f"no {number}"))

    (row,) = await deliveries(dsn)
    assert [one["attempt"] for one in json.loads(row["failures"])] == [1, 2, 3, 8, 9, 10, 11, 12, 13, 14]
