"""Prove that a firing writes its delivery, that workers claim each delivery once, and that no lane waits."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from shardclock_server.sql.cluster.holders import end_holders
from shardclock_server.sql.session import StatementRefused
from tests.support.deliveries import HANDLER, WorkerClient, add_worker, declare, deliver, deliveries, serving_worker
from tests.support.factories import HolderClient, add_schedule, add_timers, intents, query, value

pytestmark = pytest.mark.each_version


@pytest.fixture
async def worker(dsn: str) -> AsyncIterator[WorkerClient]:
    async with serving_worker(dsn) as hand:
        yield hand


@pytest.fixture
async def another(dsn: str) -> AsyncIterator[WorkerClient]:
    """Yield another worker that also believes that it has all slots."""
    await add_worker(dsn, 12)
    async with WorkerClient(dsn, 12) as hand:
        yield hand


# A firing writes its delivery


@pytest.mark.parametrize("at_once", [True, False], ids=["fused", "leased"])
async def test_a_firing_writes_its_record_and_its_delivery_in_one_statement(
    dsn: str, shard: HolderClient, worker: WorkerClient, at_once: bool
) -> None:
    facts = {"payload": "'{\"order\": 42}'", "process_instance_key": "7", "element_instance_key": "8"}
    facts |= {"tenant_id": "'acme'", "timer_type": "'BOUNDARY'", "target_element_id": "'wait'", "name": "'cart-7'"}
    (key,) = await add_timers(dsn, 1, target=f"'{HANDLER}'", **facts)
    timer = (await query(dsn, "select * from shardclock.timers"))[0]

    taken = await shard.take(fire_overdue=at_once)
    await shard.fire(taken.claimed)

    (delivery,) = await deliveries(dsn)
    same = [
        "timer_key", "slot", "due_date", "created_at", "occurrence", "payload", "process_instance_key",
        "element_instance_key", "tenant_id", "timer_type", "target", "target_element_id", "name", "schedule",
    ]  # fmt: skip
    assert {name: delivery[name] for name in same} == {name: timer[name] for name in same}
    assert (delivery["claimed_by"], delivery["claims"], delivery["failed_attempts"]) == (None, 0, 0)
    assert await intents(dsn) == {(key, "TRIGGERED"): 1}


async def test_a_timer_without_a_target_creates_no_delivery(
    dsn: str, shard: HolderClient, worker: WorkerClient
) -> None:
    await add_timers(dsn, 2)
    await shard.take(fire_overdue=True)
    await add_timers(dsn, 2)
    await shard.fire((await shard.take()).claimed)

    assert await value(dsn, "select count(*) from shardclock.command_log") == 4
    assert await deliveries(dsn) == []


async def test_each_occurrence_of_a_schedule_has_a_delivery_and_a_skipped_occurrence_has_no_delivery(
    dsn: str, shard: HolderClient, worker: WorkerClient
) -> None:
    first = await add_schedule(dsn, target=f"'{HANDLER}'")
    await shard.fire((await shard.take()).claimed)
    await query(dsn, "update shardclock.timers set missed = 'skip', due_date = due_date - interval '3 hours'")
    await query(dsn, "update shardclock.timers set anchor = anchor - interval '3 hours'")

    await shard.fire((await shard.take()).claimed)

    assert {intent for _, intent in await intents(dsn)} == {"TRIGGERED", "SKIPPED"}
    assert [row["timer_key"] for row in await deliveries(dsn)] == [first]


# Targets


async def test_an_unknown_target_is_refused_with_a_list_of_the_targets(
    dsn: str, client: HolderClient, worker: WorkerClient
) -> None:
    await declare(dsn, HANDLER, "cart.left")

    with pytest.raises(
        StatementRefused, match=r"target 'order\.exspired' is unknown: the targets are log, cart\.left, "
    ):
        await client.call("schedule_timer", {"delay": "PT1M", "target": "order.exspired"})
    assert await value(dsn, "select count(*) from shardclock.timers") == 0

    await client.call("schedule_timer", {"delay": "PT1M", "target": HANDLER})
    assert await value(dsn, "select target from shardclock.timers") == HANDLER


async def test_without_an_app_the_only_target_is_the_log(dsn: str, client: HolderClient) -> None:
    with pytest.raises(StatementRefused, match=r"target 'order\.expired' is unknown: the only target is log; an app "):
        await client.call("schedule_timer", {"delay": "PT1M", "target": HANDLER})


async def test_no_new_timer_may_name_a_withdrawn_target_but_schedules_continue(
    dsn: str, shard: HolderClient, client: HolderClient, worker: WorkerClient
) -> None:
    await add_schedule(dsn, target=f"'{HANDLER}'")
    assert await declare(dsn, "cart.left") == {HANDLER: "withdrawn", "cart.left": "added"}

    with pytest.raises(StatementRefused, match=r"target 'order\.expired' was withdrawn at "):
        await client.call("schedule_timer", {"delay": "PT1M", "target": HANDLER})
    await shard.fire((await shard.take()).claimed)

    assert await value(dsn, "select occurrence from shardclock.timers") == 2
    assert await declare(dsn, HANDLER, "cart.left") == {HANDLER: "back"}
    assert await declare(dsn, HANDLER, "cart.left") == {}


# Claims


async def test_a_claimed_delivery_has_all_columns_and_no_other_worker_takes_it_until_its_lease_ends(
    dsn: str, shard: HolderClient, worker: WorkerClient, another: WorkerClient
) -> None:
    (key,) = await deliver(shard, payload="'{\"order\": 42}'", tenant_id="'acme'")
    worker.now = another.now = await shard.value("select now()")

    (mine,) = await worker.take()

    assert (mine.timer_key, mine.tenant_id, mine.target, mine.claims, mine.failed_attempts) == (
        key, "acme", HANDLER, 1, 0,
    )  # fmt: skip
    assert mine.payload is not None
    assert json.loads(mine.payload) == {"order": 42}
    assert await another.take() == []
    another.now += timedelta(seconds=9.9)
    assert await another.take() == []
    another.now += timedelta(seconds=0.2)
    (theirs,) = await another.take()
    assert (theirs.timer_key, theirs.claims) == (key, 2)


async def test_deliveries_of_an_ended_worker_are_free_immediately_and_deliveries_of_a_suspended_worker_are_not(
    dsn: str, shard: HolderClient, worker: WorkerClient, another: WorkerClient
) -> None:
    (key,) = await deliver(shard)
    await worker.take()
    await query(dsn, "update shardclock.holders set suspended_at = now() where holder = 11")
    assert await another.take() == [], "it may still be at work"

    await end_holders(worker.claims, [11], why="dead")

    assert [it.timer_key for it in await another.take()] == [key]
    assert await worker.take() == [], "an ended worker takes nothing"


async def test_workers_share_the_slots(dsn: str, shard: HolderClient) -> None:
    await declare(dsn, HANDLER)
    keys = await deliver(shard, 40)
    for part, holder in enumerate((11, 12)):
        await add_worker(dsn, holder, part, 2)
    async with WorkerClient(dsn, 11) as one, WorkerClient(dsn, 12) as two:
        ours, theirs = await one.take(), await two.take()

    assert {it.timer_key for it in ours} == {key for key in keys if key % 840 % 2 == 0}
    assert {it.timer_key for it in theirs} == {key for key in keys if key % 840 % 2 == 1}


async def test_a_worker_claims_only_deliveries_of_its_targets_and_only_as_many_as_it_has_slots(
    dsn: str, shard: HolderClient, worker: WorkerClient
) -> None:
    await declare(dsn, HANDLER, "cart.left")
    await deliver(shard, 9)
    await deliver(shard, 3, target="cart.left")

    assert await worker.take({HANDLER: 0}) == []
    assert len(await worker.take({HANDLER: 4})) == 4
    assert {it.target for it in await worker.take()} == {HANDLER}
    worker.targets = ["cart.left"]
    assert len(await worker.take(batch=2)) == 2


async def test_many_deliveries_of_one_target_delay_no_other_target(
    dsn: str, shard: HolderClient, worker: WorkerClient
) -> None:
    await declare(dsn, HANDLER, "cart.left")
    await deliver(shard, 1)
    text = """
        insert into shardclock.deliveries (timer_key, next_attempt_at, due_date, created_at, occurrence, slot,
            tenant_id, timer_type, target)
        select 1000000 + i, now() - interval '1 hour', now(), now(), 1, i % 840, 'acme', 'USER', 'cart.left'
        from generate_series(1, 20000) i
    """
    await query(dsn, text)
    worker.targets = ["cart.left", HANDLER]

    few = await worker.scan(batch=10, places={"cart.left": 0})
    both = await worker.scan(batch=10)

    assert [it.target for it in few.claimed] == [HANDLER]
    assert (few.lanes, few.saturated) == (1, False)
    assert [it.target for it in both.claimed] == ["cart.left"] * 5


async def test_tenants_share_few_slots_at_random_and_never_exceed_the_slots(
    dsn: str, shard: HolderClient, worker: WorkerClient
) -> None:
    # Given so many tenants that no tenant's deliveries end during the test: a worker reads an empty lane for a while
    for tenant in range(20):
        await deliver(shard, 12, tenant_id=f"'t{tenant}'")

    turns = [await worker.take({HANDLER: 3}) for _ in range(12)]

    assert {len(taken) for taken in turns} == {3}
    assert len({it.tenant_id for taken in turns for it in taken}) > 8, (
        "not always the deliveries that have waited longest"
    )


async def test_open_deliveries_need_workers_even_if_their_target_was_removed(
    dsn: str, shard: HolderClient, worker: WorkerClient
) -> None:
    await deliver(shard)
    await declare(dsn)
    assert await value(dsn, "select shardclock.has_targets()") is True

    await query(dsn, "delete from shardclock.deliveries")
    assert await value(dsn, "select shardclock.has_targets()") is False


async def test_tenants_of_one_target_have_equal_shares(dsn: str, shard: HolderClient, worker: WorkerClient) -> None:
    await deliver(shard, 50, tenant_id="'flood'")
    await deliver(shard, 5, tenant_id="'drop'")

    taken = await worker.take(batch=10)

    assert sorted(it.tenant_id for it in taken) == ["drop"] * 5 + ["flood"] * 5
