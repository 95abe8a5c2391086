"""Prove that a firing hands its delivery over to a worker that has granted capacity, and to no other worker."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from shardclock_server.sql.claims.handed import Grants, Handed
from shardclock_server.sql.deliveries.claim import ClaimedDelivery
from tests.support.deliveries import HANDLER, WorkerClient, add_worker, declare, deliveries, done
from tests.support.factories import HolderClient, add_schedule, add_timers, intents, query

pytestmark = pytest.mark.each_version

WORKER, OTHER = 11, 12


@pytest.fixture(autouse=True)
async def _declared(dsn: str) -> None:
    await declare(dsn, HANDLER)


def granting(places: int = 10, *workers: int, target: str = HANDLER, lease_s: float = 5.0) -> Grants:
    """Return the grants of some workers: each worker grants the same number of places for one target."""
    return Grants({worker: {target: places} for worker in workers or (WORKER,)}, lease_s)


async def fire(shard: HolderClient, grants: Grants, *, at_once: bool = True) -> Handed:
    """Fire all due timers; return the deliveries that the firings handed over."""
    if at_once:
        return (await shard.take(fire_overdue=True, grants=grants)).handed
    return (await shard.fire((await shard.take()).claimed, grants=grants)).handed


def keys_of(handed: Handed) -> dict[int, list[int]]:
    return {worker: [row[0] for row in rows] for worker, rows in handed.items()}


@pytest.mark.parametrize("at_once", [True, False], ids=["fused", "leased"])
async def test_a_firing_claims_its_delivery_for_the_worker_of_its_slot_and_returns_the_same_columns_as_a_claim(
    dsn: str, shard: HolderClient, *, at_once: bool
) -> None:
    await add_worker(dsn, WORKER)
    (key,) = await add_timers(dsn, 1, target=f"'{HANDLER}'", payload="'[1]'", name="'n'", tenant_id="'acme'")

    handed = await fire(shard, granting(), at_once=at_once)

    (row,) = await deliveries(dsn)
    assert (row["claimed_by"], row["claims"], row["given_back"]) == (WORKER, 1, 0)
    assert 4.5 < (row["claimed_until"] - row["fired_at"]).total_seconds() < 5.5
    assert {WORKER: [ClaimedDelivery._make(it) for it in handed[WORKER]]} == {
        WORKER: [ClaimedDelivery(**{name: row[name] for name in ClaimedDelivery._fields})]
    }
    assert await intents(dsn) == {(key, "TRIGGERED"): 1}


async def test_the_soonest_deliveries_are_handed_over_and_any_worker_may_claim_the_remaining_deliveries(
    dsn: str, shard: HolderClient
) -> None:
    await add_worker(dsn, WORKER)
    late = await add_timers(dsn, 3, "now() - i * interval '1 second'", target=f"'{HANDLER}'")

    handed = await fire(shard, granting(2))

    assert keys_of(handed) == {WORKER: [late[2], late[1]]}
    async with WorkerClient(dsn, WORKER) as worker:
        assert [it.timer_key for it in await worker.take()] == [late[0]]


async def test_any_worker_may_claim_deliveries_beyond_the_grants(dsn: str, shard: HolderClient) -> None:
    await declare(dsn, HANDLER, "other")
    await add_worker(dsn, WORKER)
    await add_timers(dsn, 1, target="'other'")
    await add_timers(dsn, 1)

    assert await fire(shard, granting()) == {}

    assert [row["claimed_by"] for row in await deliveries(dsn)] == [None]


async def test_each_worker_gets_the_deliveries_of_its_slots(dsn: str, shard: HolderClient) -> None:
    await add_worker(dsn, WORKER, 0, 2)
    await add_worker(dsn, OTHER, 1, 2)
    keys = await add_timers(dsn, 10, target=f"'{HANDLER}'")

    handed = keys_of(await fire(shard, granting(10, WORKER, OTHER)))

    assert {worker: sorted(its) for worker, its in handed.items()} == {
        WORKER: [key for key in keys if key % 2 == 0],
        OTHER: [key for key in keys if key % 2 == 1],
    }


async def test_if_a_slot_has_two_owners_only_one_gets_the_delivery(dsn: str, shard: HolderClient) -> None:
    await add_worker(dsn, WORKER)
    await add_worker(dsn, OTHER)
    keys = await add_timers(dsn, 4, target=f"'{HANDLER}'")

    handed = keys_of(await fire(shard, granting(3, WORKER, OTHER)))

    given = [key for its in handed.values() for key in its]
    assert len(given) == len(set(given)) == 3
    assert {row["timer_key"]: row["claims"] for row in await deliveries(dsn)} == {key: key in given for key in keys}


UNFIT: Mapping[str, str] = {
    "ended": "ended_at = now(), ended_why = 'test', part = null, part_count = null",
    "ended before it was told": "ended_at = now(), ended_why = 'test'",
    "suspended": "suspended_at = now()",
    "without slots": "part = null, part_count = null",
    "of another installation": "identity = 'another'",
}


@pytest.mark.parametrize("how", UNFIT)
async def test_a_worker_without_the_right_to_claim_gets_no_delivery(dsn: str, shard: HolderClient, how: str) -> None:
    await add_worker(dsn, WORKER)
    await query(dsn, "update shardclock.identity set name = 'mine', origin = shardclock.origin()")
    await query(dsn, f"update shardclock.holders set {UNFIT[how]} where holder = {WORKER}")
    (key,) = await add_timers(dsn, 1, target=f"'{HANDLER}'")

    assert await fire(shard, granting()) == {}

    assert [(row["timer_key"], row["claims"], row["claimed_by"]) for row in await deliveries(dsn)] == [(key, 0, None)]


async def test_a_delivery_whose_worker_ended_while_it_fired_is_free_at_once(dsn: str, shard: HolderClient) -> None:
    await add_worker(dsn, WORKER)
    await add_worker(dsn, OTHER)
    (key,) = await add_timers(dsn, 1, target=f"'{HANDLER}'")
    await shard.begin()
    assert keys_of(await fire(shard, granting())) == {WORKER: [key]}
    await query(dsn, f"update shardclock.holders set {UNFIT['ended']} where holder = {WORKER}")
    await shard.commit()

    async with WorkerClient(dsn, OTHER) as other:
        assert [(it.timer_key, it.claims) for it in await other.take()] == [(key, 2)]


async def test_a_delivery_that_never_arrived_is_free_after_its_lease_and_its_first_claim_can_settle_nothing(
    dsn: str, shard: HolderClient
) -> None:
    await add_worker(dsn, WORKER)
    (key,) = await add_timers(dsn, 1, target=f"'{HANDLER}'")
    ((row,),) = (await fire(shard, granting())).values()

    async with WorkerClient(dsn, WORKER) as worker:
        assert await worker.take() == []
        await query(dsn, "update shardclock.deliveries set claimed_until = now()")
        (again,) = await worker.take()
        assert (again.timer_key, again.claims) == (key, 2)
        assert await worker.settle(done(ClaimedDelivery._make(row))) == frozenset()
        assert await worker.settle(done(again)) == {(key, 2)}
    assert await intents(dsn) == {(key, "TRIGGERED"): 1, (key, "DELIVERED"): 1}


async def test_a_rolled_back_firing_hands_no_delivery_over(dsn: str, shard: HolderClient) -> None:
    await add_worker(dsn, WORKER)
    await add_timers(dsn, 1, target=f"'{HANDLER}'")
    await shard.begin()
    await fire(shard, granting())
    await shard.rollback()

    assert await deliveries(dsn) == []


async def test_each_occurrence_except_missed_ones_is_handed_over(dsn: str, shard: HolderClient) -> None:
    await add_worker(dsn, WORKER)
    await add_schedule(dsn, "R/PT1H", "now() - interval '5 hours'", anchor="now() - interval '6 hours'",
                       target=f"'{HANDLER}'", missed="'skip'")  # fmt: skip
    key = await add_schedule(dsn, "R/PT1H", target=f"'{HANDLER}'", name="'other'")

    assert keys_of(await fire(shard, granting(), at_once=False)) == {WORKER: [key]}


async def test_repeated_firings_hand_no_delivery_over_a_second_time(dsn: str, shard: HolderClient) -> None:
    await add_worker(dsn, WORKER)
    keys = await add_timers(dsn, 2, target=f"'{HANDLER}'")
    held = (await shard.take()).claimed
    assert sorted(keys_of((await shard.fire(held, grants=granting())).handed)[WORKER]) == keys

    assert (await shard.fire(held, grants=granting())).handed == {}


async def test_the_numbers_of_a_claim_count_the_deliveries_that_were_handed_over(dsn: str, shard: HolderClient) -> None:
    await add_worker(dsn, WORKER)
    await add_timers(dsn, 5, target=f"'{HANDLER}'")

    taken = await shard.take(fire_overdue=True, grants=granting(2))

    assert (taken.fired, taken.deliveries, len(taken.handed[WORKER])) == (5, 5, 2)
