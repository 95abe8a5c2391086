"""Prove that a verb ends a delivery, or makes it due, exactly once, and that its answer is true, even if a worker
handles the delivery at the same time.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Any, NamedTuple

import pytest

from shardclock_server.sql.deliveries.dead_letters import redrive_dead_letters
from shardclock_server.sql.deliveries.find import DeliveryFilter, FoundDelivery, find_deliveries
from shardclock_server.sql.deliveries.verbs import cancel_delivery, retry_deliveries, retry_delivery
from shardclock_server.sql.session import Session, StatementRefused
from tests.support.deliveries import (
    HANDLER,
    WorkerClient,
    add_deliveries,
    dead,
    deliver,
    deliveries,
    done,
    failed,
    serving_worker,
)
from tests.support.factories import HolderClient, ends, query, recorded, waits
from tests.support.job_runs import declare as declare_job
from tests.support.jobs import job_spec
from tests.support.plans import prepare

pytestmark = pytest.mark.each_version

OTHER = "cart.left"
LEASE_IS_OVER = "update shardclock.deliveries set claimed_until = now()"


class DeliveryVerb(NamedTuple):
    """A verb, and its answer for a success."""

    act: Callable[[Session, int], Awaitable[str]]
    answer: str


CANCEL, RETRY = DeliveryVerb(cancel_delivery, "DISCARDED"), DeliveryVerb(retry_delivery, "DUE")
each_verb = pytest.mark.parametrize("verb", [CANCEL, RETRY], ids=["cancel", "retry"])


@pytest.fixture
async def worker(dsn: str) -> AsyncIterator[WorkerClient]:
    async with serving_worker(dsn, targets=[HANDLER, OTHER]) as hand:
        yield hand


@pytest.fixture
async def operator(dsn: str, worker: WorkerClient) -> AsyncIterator[HolderClient]:
    """Yield an operator, on a connection with a transaction that a test can keep open."""
    async with HolderClient(dsn, role="shard", plans={}) as hand:
        yield hand


@pytest.fixture
async def key(shard: HolderClient, worker: WorkerClient) -> int:
    """Let an attempt fail, with the next attempt due in an hour; return the timer's key."""
    (key,) = await deliver(shard)
    await worker.settle(*[failed(it, delay_s=3_600.0) for it in await worker.take()])
    return key


async def details(dsn: str, intent: str) -> list[dict[str, Any]]:
    rows = await query(dsn, "select detail from shardclock.command_log where intent = $1 order by position", intent)
    return [json.loads(row["detail"]) for row in rows]


# One delivery


async def test_a_cancelled_delivery_is_gone_and_its_record_has_the_reason_and_the_person(
    dsn: str, operator: HolderClient, key: int
) -> None:
    assert await cancel_delivery(operator.session, key, reason="refunded by hand") == "DISCARDED"

    assert await deliveries(dsn) == []
    assert await recorded(dsn) == [(key, "TRIGGERED"), (key, "DISCARDED")]
    assert await details(dsn, "DISCARDED") == [{"by": "test_shard", "reason": "refunded by hand"}]
    assert await cancel_delivery(operator.session, key) == "DISCARDED", "sent again, the answer stays true"
    assert len(await recorded(dsn)) == 2


async def test_a_retried_delivery_is_due_now_and_its_failed_attempt_is_still_counted(
    operator: HolderClient, worker: WorkerClient, key: int
) -> None:
    assert await worker.take() == []

    assert await retry_delivery(operator.session, key) == "DUE"

    (again,) = await worker.take()
    assert (again.timer_key, again.failed_attempts) == (key, 1)


async def test_a_due_delivery_keeps_its_turn(
    dsn: str, operator: HolderClient, shard: HolderClient, worker: WorkerClient
) -> None:
    (key,) = await deliver(shard)
    before = await deliveries(dsn)

    assert await retry_delivery(operator.session, key) == "DUE"

    assert await deliveries(dsn) == before


@each_verb
async def test_a_claimed_delivery_is_left_to_its_worker_and_not_locked_until_the_end_of_the_caller_s_transaction(
    dsn: str, operator: HolderClient, shard: HolderClient, worker: WorkerClient, verb: DeliveryVerb
) -> None:
    (key,) = await deliver(shard)
    (mine,) = await worker.take()
    await operator.begin()

    assert await verb.act(operator.session, key) == "IN_HAND"

    assert await worker.settle(done(mine)) == {mine.claim}
    await operator.commit()
    assert await verb.act(operator.session, key) == "DELIVERED"
    assert await recorded(dsn) == [(key, "TRIGGERED"), (key, "DELIVERED")]


@each_verb
async def test_a_delivery_whose_lease_has_ended_is_free(
    operator: HolderClient, shard: HolderClient, worker: WorkerClient, verb: DeliveryVerb
) -> None:
    (key,) = await deliver(shard)
    worker.now = await shard.value("select now() - interval '1 minute'")
    await query(shard.dsn, "update shardclock.deliveries set next_attempt_at = now() - interval '2 minutes'")
    (mine,) = await worker.take()

    assert await verb.act(operator.session, key) == verb.answer

    assert (await worker.settle(done(mine)) == frozenset()) == (verb is CANCEL), "a late answer finds no row"


@each_verb
async def test_a_delivery_that_was_given_up_is_a_dead_letter_and_an_unknown_one_is_not_found(
    operator: HolderClient, shard: HolderClient, worker: WorkerClient, verb: DeliveryVerb
) -> None:
    (key,) = await deliver(shard)
    await worker.settle(*map(dead, await worker.take()))

    assert await verb.act(operator.session, key) == "DEAD"
    assert await redrive_dead_letters(operator.session, [key]) == [key]
    assert await verb.act(operator.session, key) == verb.answer
    assert await verb.act(operator.session, key + 1) == "UNKNOWN"


async def test_a_start_of_a_job_is_not_cancelled_as_a_delivery(dsn: str, operator: HolderClient) -> None:
    await declare_job(dsn, job_spec("refresh", every_s=900.0))
    await add_deliveries(dsn, 1, "job:refresh", tenant_id="'default'")
    ((key,),) = await query(dsn, "select timer_key from shardclock.deliveries")

    with pytest.raises(StatementRefused, match="is a start of job 'refresh': disable the job"):
        await cancel_delivery(operator.session, key)

    assert len(await deliveries(dsn)) == 1
    assert await retry_delivery(operator.session, key) == "DUE"


# Races


@each_verb
async def test_if_a_concurrent_claim_commits_the_verb_changes_nothing(
    dsn: str, operator: HolderClient, shard: HolderClient, worker: WorkerClient, verb: DeliveryVerb
) -> None:
    (key,) = await deliver(shard)
    await operator.begin()
    async with worker.claims.transaction():
        (mine,) = await worker.take()
        acting = await waits(operator, verb.act(operator.session, key))

    assert await ends(acting) == "IN_HAND"
    assert await worker.settle(done(mine)) == {mine.claim}, "the lock that it has got is gone"
    assert await recorded(dsn) == [(key, "TRIGGERED"), (key, "DELIVERED")]


async def test_a_claim_skips_a_delivery_that_is_being_cancelled(
    dsn: str, operator: HolderClient, shard: HolderClient, worker: WorkerClient
) -> None:
    (key,) = await deliver(shard)
    await operator.begin()
    assert await cancel_delivery(operator.session, key) == "DISCARDED"

    assert await worker.take() == []
    await operator.commit()

    assert await worker.take() == []
    assert await recorded(dsn) == [(key, "TRIGGERED"), (key, "DISCARDED")]


async def test_a_cancel_that_is_rolled_back_leaves_the_delivery_to_the_next_claim(
    operator: HolderClient, shard: HolderClient, worker: WorkerClient
) -> None:
    (key,) = await deliver(shard)
    await operator.begin()
    await cancel_delivery(operator.session, key)
    await operator.rollback()

    assert [it.timer_key for it in await worker.take()] == [key]


@each_verb
async def test_if_a_late_settlement_fails_the_attempt_the_waiting_verb_changes_the_delivery(
    dsn: str, operator: HolderClient, shard: HolderClient, worker: WorkerClient, verb: DeliveryVerb
) -> None:
    (key,) = await deliver(shard)
    (mine,) = await worker.take()
    await query(dsn, LEASE_IS_OVER)
    async with worker.settles.transaction():
        assert await worker.settle(failed(mine, delay_s=3_600.0)) == {mine.claim}
        acting = await waits(operator, verb.act(operator.session, key))

    assert await ends(acting) == verb.answer
    taken = [it.timer_key for it in await worker.take()]
    assert taken == ([key] if verb is RETRY else [])


@each_verb
async def test_if_a_late_settlement_ends_the_delivery_the_waiting_verb_returns_that_end(
    dsn: str, operator: HolderClient, shard: HolderClient, worker: WorkerClient, verb: DeliveryVerb
) -> None:
    (key,) = await deliver(shard)
    (mine,) = await worker.take()
    await query(dsn, LEASE_IS_OVER)
    async with worker.settles.transaction():
        await worker.settle(done(mine))
        acting = await waits(operator, verb.act(operator.session, key))

    assert await ends(acting) == "DELIVERED"
    assert await recorded(dsn) == [(key, "TRIGGERED"), (key, "DELIVERED")]


async def test_all_selected_deliveries_except_locked_ones_are_retried(
    dsn: str, operator: HolderClient, worker: WorkerClient
) -> None:
    await add_deliveries(dsn, 3, next_attempt_at="now() + interval '1 h'")
    await add_deliveries(dsn, 1)
    async with worker.settles.transaction() as settling:
        await settling.execute("select from shardclock.deliveries where timer_key = 2 for update")

        assert sorted(await retry_deliveries(operator.session, [1, 2, 3, 4, 5])) == [1, 3]

    assert await retry_deliveries(operator.session, [1, 2, 3, 4, 5]) == [2]
    assert sorted(it.timer_key for it in await worker.take()) == [1, 2, 3, 4]


# Finding deliveries


async def found(operator: HolderClient, wanted: DeliveryFilter, **options: Any) -> list[FoundDelivery]:
    return await find_deliveries(operator.session, wanted, **{"limit": 10, **options})


async def test_deliveries_are_found_by_target_and_tenant_the_soonest_first_with_the_last_error(
    operator: HolderClient, worker: WorkerClient, key: int, shard: HolderClient
) -> None:
    later = await deliver(shard, 2, target=OTHER, tenant_id="'acme'", name="'cart-' || i")
    (mine,) = await worker.take({HANDLER: 1, OTHER: 1})

    every = await found(operator, DeliveryFilter())

    assert [it.timer_key for it in every] == [*later, key]
    in_hand, waiting, failing = every
    assert (in_hand.state, in_hand.holder, in_hand.timer_key) == ("IN_HAND", 11, mine.timer_key)
    assert (waiting.state, waiting.holder, waiting.tenant_id, waiting.name) == ("WAITING", None, "acme", "cart-2")
    assert (failing.failed_attempts, failing.last_error, failing.state) == (1, "it raised", "WAITING")
    assert failing.next_attempt_at - in_hand.next_attempt_at > timedelta(minutes=59)
    for wanted, keys in (
        (DeliveryFilter(HANDLER), [key]),
        (DeliveryFilter(tenant_id="acme"), later),
        (DeliveryFilter(HANDLER, "acme"), []),
        (DeliveryFilter(failing=True), [key]),
        (DeliveryFilter(OTHER, failing=True), []),
        (DeliveryFilter(delayed=True), [key]),
    ):
        assert [it.timer_key for it in await found(operator, wanted)] == keys, wanted


async def test_a_long_reason_is_listed_by_its_beginning(dsn: str, operator: HolderClient) -> None:
    await add_deliveries(dsn, 1, failures="jsonb_build_array(jsonb_build_object('reason', repeat('no ', 1000)))")

    (failing,) = await found(operator, DeliveryFilter())

    assert failing.last_error == ("no " * 1_000)[:1_000]


async def test_pages_have_each_delivery_once_even_if_due_dates_are_equal(dsn: str, operator: HolderClient) -> None:
    for target in (HANDLER, OTHER):
        await add_deliveries(dsn, 12, target, next_attempt_at="date_trunc('hour', now())", tenant_id="'t' || i % 2")
    seen: list[FoundDelivery] = []
    while page := await found(operator, DeliveryFilter(), limit=5, after=seen[-1].cursor if seen else None):
        seen += page

    assert seen == await found(operator, DeliveryFilter(), limit=100)
    assert len({it.timer_key for it in seen}) == len(seen) == 24


FEW = ["null", "null", "false", "false", "null", "null", "null", "null", "null", "20"]
PLANS = {
    "all": (FEW, "deliveries_by_lane"),
    "target": ([f"'{OTHER}'", *FEW[1:]], "deliveries_by_lane"),
    "page": ([*FEW[:5], f"'{HANDLER}'", "'acme'", "now() + interval '1 h'", "9", "20"], "deliveries_by_lane"),
    "failing": ([*FEW[:2], "true", *FEW[3:]], "deliveries_failing"),
    "delayed": ([f"'{HANDLER}'", "'acme'", "false", "true", *FEW[4:]], "deliveries_by_lane"),
}


@pytest.mark.parametrize(("arguments", "index"), PLANS.values(), ids=PLANS)
async def test_a_page_reads_no_more_rows_than_it_returns(
    dsn: str, worker: WorkerClient, arguments: list[str], index: str
) -> None:
    await add_deliveries(dsn, 5_000)
    await add_deliveries(dsn, 50, next_attempt_at="now() + interval '2 h'", failed_attempts="1")
    await add_deliveries(dsn, 50, OTHER)
    await query(dsn, "vacuum analyze shardclock.deliveries")
    find = await prepare(dsn, "find_deliveries", enable_seqscan="on", enable_bitmapscan="on", plan_cache_mode="auto")

    reading = await find.explain(*arguments, touched=True, table="deliveries")

    assert (reading.rows, reading.indexes) == (20, {index})
    await find.connection.close()
