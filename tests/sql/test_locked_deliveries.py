"""Prove that a client's open transaction delays only the deliveries that the transaction has locked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from shardclock_server.sql.deliveries.claim import ClaimedDelivery, renew_deliveries
from shardclock_server.sql.deliveries.settle import Unsettled, settle_deliveries
from shardclock_server.sql.session import StoreLocked
from tests.support.deliveries import (
    WorkerClient,
    add_deliveries,
    dead,
    deliver,
    deliveries,
    done,
    failed,
    serving_worker,
)
from tests.support.factories import HolderClient, query, recorded, seconds, value
from tests.support.plans import prepare

pytestmark = pytest.mark.each_version

LOCK = "select timer_key from shardclock.deliveries where timer_key = $1 for update"
MANY, KEYS = 5_000, range(7, 107)


@pytest.fixture
async def worker(dsn: str, shard: HolderClient) -> AsyncIterator[WorkerClient]:
    """Yield a worker with all slots and its own clock."""
    async with serving_worker(dsn, now=await shard.value("select now() + interval '1 second'")) as hand:
        yield hand


@pytest.fixture
async def taken(shard: HolderClient, worker: WorkerClient, client: HolderClient) -> list[ClaimedDelivery]:
    """Claim three deliveries; a client's open transaction has locked the second delivery."""
    await deliver(shard, 3)
    taken = await worker.take()
    await client.begin()
    assert await client.value(LOCK, taken[1].timer_key)
    return taken


async def settle(worker: WorkerClient, *settlements: Any) -> Unsettled:
    return await settle_deliveries(worker.settles, worker.holder, settlements, leaves_locked=True, now=worker.now)


@pytest.mark.parametrize("how", [done, failed, dead])
async def test_a_locked_delivery_is_skipped_and_reported_and_the_others_are_settled(
    dsn: str, worker: WorkerClient, client: HolderClient, taken: list[ClaimedDelivery], how: Any
) -> None:
    one, locked, three = taken

    assert await settle(worker, done(one), how(locked), how(three)) == Unsettled(locked=frozenset([locked.claim]))

    left = {row["timer_key"]: row for row in await deliveries(dsn)}
    assert left[locked.timer_key]["claimed_by"] == worker.holder
    assert left.keys() - {locked.timer_key} == ({three.timer_key} if how is failed else set())
    assert await settle(worker, how(locked)) == Unsettled(locked=frozenset([locked.claim]))
    await client.rollback()
    assert await settle(worker, how(locked)) == Unsettled()
    assert (await recorded(dsn)).count((locked.timer_key, "DELIVERED")) == (how is done)


async def test_a_settlement_that_does_not_skip_locked_rows_waits_briefly_and_changes_nothing(
    dsn: str, worker: WorkerClient, taken: list[ClaimedDelivery]
) -> None:
    with pytest.raises(StoreLocked):
        await worker.settle(*map(done, taken))

    assert len(await deliveries(dsn)) == 3


async def test_a_row_that_is_locked_only_briefly_is_settled_after_a_wait(
    worker: WorkerClient, client: HolderClient, taken: list[ClaimedDelivery]
) -> None:
    await client.commit()

    assert await worker.settle(*map(done, taken)) == {it.claim for it in taken}


async def test_the_older_of_two_claims_of_a_locked_delivery_is_lost(
    dsn: str, shard: HolderClient, worker: WorkerClient, client: HolderClient
) -> None:
    await deliver(shard)
    (older,) = await worker.take()
    assert worker.now is not None
    worker.now += seconds(11)
    (newer,) = await worker.take()
    await client.begin()
    await client.value(LOCK, newer.timer_key)

    assert await settle(worker, done(older), failed(newer)) == (frozenset([older.claim]), frozenset([newer.claim]))

    renewal = await renew_deliveries(worker.claims, worker.holder, [older, newer], lease_s=10.0)
    assert renewal == (frozenset(), frozenset([newer.claim]))


async def test_a_locked_delivery_is_lost_if_another_worker_has_claimed_it_later(
    dsn: str, worker: WorkerClient, client: HolderClient, taken: list[ClaimedDelivery]
) -> None:
    await client.rollback()
    lost = taken[1]
    await query(
        dsn, "update shardclock.deliveries set claimed_by = 12, claims = 2 where timer_key = $1", lost.timer_key
    )
    await client.begin()
    await client.value(LOCK, lost.timer_key)

    assert await renew_deliveries(worker.claims, worker.holder, [lost], lease_s=10.0) == (frozenset(), frozenset())
    assert await settle(worker, done(lost)) == Unsettled(lost=frozenset([lost.claim]))


async def test_the_lease_of_a_locked_delivery_is_kept(
    dsn: str, worker: WorkerClient, client: HolderClient, taken: list[ClaimedDelivery]
) -> None:
    one, locked, three = taken
    ends = "select claimed_until from shardclock.deliveries where timer_key = $1"
    before = await value(dsn, ends, locked.timer_key)
    assert worker.now is not None
    worker.now += seconds(8)

    renewal = await renew_deliveries(worker.claims, worker.holder, taken, lease_s=10.0, now=worker.now)

    assert renewal == (frozenset([one.claim, three.claim]), frozenset([locked.claim]))
    assert await value(dsn, ends, locked.timer_key) == before
    assert await value(dsn, ends, one.timer_key) == worker.now + seconds(10)
    worker.now += seconds(8)
    assert await worker.take() == [], "a locked delivery can't be claimed, even after its lease"
    await client.rollback()
    renewal = await renew_deliveries(worker.claims, worker.holder, taken, lease_s=10.0, now=worker.now)
    assert len(renewal.renewed) == 3


# Rows that the statements read


@pytest.mark.parametrize("analyzed", [False, True])
@pytest.mark.parametrize(("leaves_locked", "probes"), [("false", 1), ("true", 2)])
async def test_a_settlement_reads_its_own_rows_and_locks_them_first_only_on_request(
    dsn: str, worker: WorkerClient, leaves_locked: str, probes: int, *, analyzed: bool
) -> None:
    await add_deliveries(dsn, MANY, claimed_by="11", claimed_until="now()", claims="1")
    if analyzed:
        await query(dsn, "analyze shardclock.deliveries")
    statement = await prepare(dsn, "settle_deliveries", enable_nestloop="off")
    keys, ones = f"'{{{', '.join(map(str, KEYS))}}}'", f"array_fill(1, array[{len(KEYS)}])"
    usual = ["'{}'"] * 5

    reading = await statement.explain(
        "11", keys, ones, ones, *usual, leaves_locked, "null", touched=True, table="deliveries"
    )
    await statement.connection.close()

    assert (reading.rows, reading.indexes) == (probes * len(KEYS), {"deliveries_pkey"})


@pytest.mark.parametrize("analyzed", [False, True])
async def test_a_renewal_reads_its_rows_twice(dsn: str, worker: WorkerClient, *, analyzed: bool) -> None:
    await add_deliveries(dsn, MANY, claimed_by="11", claimed_until="now()", claims="1")
    if analyzed:
        await query(dsn, "analyze shardclock.deliveries")
    statement = await prepare(dsn, "renew_deliveries")
    keys, ones = f"'{{{', '.join(map(str, KEYS))}}}'", f"array_fill(1, array[{len(KEYS)}])"

    reading = await statement.explain("11", keys, ones, "'10 s'", "null", touched=True, table="deliveries")
    await statement.connection.close()

    assert (reading.rows, reading.indexes) == (2 * len(KEYS), {"deliveries_pkey"})
