"""Prove that a claim from known lanes reads only the rows after the position in each lane, and no settled rows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from shardclock_server.sql.deliveries.claim import DeliveryScan, Lane, Position, claim_deliveries
from tests.support.deliveries import HANDLER, WorkerClient, add_deliveries, add_worker, serving_worker
from tests.support.factories import query
from tests.support.plans import prepare

pytestmark = pytest.mark.each_version

CART = "cart.left"
ORDERS, CARTS = Lane(HANDLER, "acme"), Lane(CART, "acme")


@pytest.fixture
async def worker(dsn: str) -> AsyncIterator[WorkerClient]:
    async with serving_worker(dsn, targets=[HANDLER, CART]) as hand:
        yield hand


async def scan(worker: WorkerClient, lanes: dict[Lane, Position], batch: int = 100) -> list[int]:
    wanted = DeliveryScan(worker.targets, batch, lanes=lanes)
    return [it.timer_key for it in (await claim_deliveries(worker.claims, 11, wanted, lease_s=10.0)).claimed]


async def test_a_scan_continues_after_a_position_even_among_deliveries_with_the_same_due_date(
    dsn: str, worker: WorkerClient
) -> None:
    await add_deliveries(dsn, 6, next_attempt_at="date_trunc('hour', now())")
    first = (await worker.scan(2)).claimed
    end = Position(first[-1].next_attempt_at, first[-1].timer_key)

    assert [it.timer_key for it in first] == [1, 2]
    assert await scan(worker, {ORDERS: end}, 3) == [3, 4, 5]
    assert await scan(worker, {ORDERS: Position(end.next_attempt_at, 5)}) == [6]


async def test_only_the_given_lanes_are_read_and_each_lane_is_read_from_its_position(
    dsn: str, worker: WorkerClient
) -> None:
    await add_deliveries(dsn, 3, next_attempt_at="now() - interval '1 h'")
    await add_deliveries(dsn, 3, CART)
    moment = (await query(dsn, "select now() - interval '1 min' as at"))[0]["at"]

    assert await scan(worker, {ORDERS: Position(moment, 0)}) == []
    assert await scan(worker, {ORDERS: Position(moment, 0), CARTS: Position(moment, 0)}) == [4, 5, 6]
    assert [it.timer_key for it in await worker.take()] == [1, 2, 3], "a full scan sees them"


async def test_only_a_search_of_a_worker_with_slots_reports_that_there_is_no_delivery(
    dsn: str, worker: WorkerClient
) -> None:
    known = DeliveryScan(worker.targets, 100, lanes={ORDERS: Position(datetime(2000, 1, 1, tzinfo=UTC), 0)})
    assert (await worker.scan()).is_empty
    assert not (await claim_deliveries(worker.claims, 11, known, lease_s=10.0)).is_empty
    await add_worker(dsn, 12, None, None)
    async with WorkerClient(dsn, 12) as unassigned:
        assert not (await unassigned.scan()).is_empty

    await add_deliveries(dsn, 1, next_attempt_at="now() + interval '1 h'")

    assert not (await worker.scan()).is_empty
    assert (await worker.scan()).claimed == []


async def test_a_handler_gets_its_share_although_many_endpoints_have_waited_longer(
    dsn: str, worker: WorkerClient
) -> None:
    for number in range(4):
        await add_deliveries(dsn, 1, f"webhook:hook-{number}", next_attempt_at="now() - interval '1 h'")
    await add_deliveries(dsn, 1)

    claimed = (await worker.scan(2, places={HANDLER: 1}, webhooks=1)).claimed

    assert HANDLER in {it.target for it in claimed}
    assert len(claimed) == 2


async def test_a_known_lane_without_due_deliveries_reduces_no_share_of_another_lane(
    dsn: str, worker: WorkerClient
) -> None:
    await add_deliveries(dsn, 20)
    await add_deliveries(dsn, 3, CART, next_attempt_at="now() + interval '1 h'")
    moment = (await query(dsn, "select now() - interval '1 min' as at"))[0]["at"]

    assert len(await scan(worker, {ORDERS: Position(moment, 0), CARTS: Position(moment, 0)}, 10)) == 10


async def test_a_scan_does_not_read_the_claimed_and_deleted_rows_in_front_of_its_position(
    dsn: str, worker: WorkerClient
) -> None:
    await query(dsn, "alter table shardclock.deliveries set (autovacuum_enabled = off)")
    await add_deliveries(dsn, 5_000, next_attempt_at="date_trunc('hour', now()) - interval '1 h' + i * interval '1 ms'")
    await query(
        dsn, "update shardclock.deliveries set claimed_by = 9, claimed_until = now() + interval '10 s', claims = 1"
    )
    await query(dsn, "delete from shardclock.deliveries where timer_key <= 2500")
    await add_deliveries(dsn, 100)
    claim = await prepare(dsn, "claim_deliveries")
    known = [f"array['{HANDLER}']", "array['acme']", "array[now() - interval '1 min']", "array[0]"]

    readings = {
        search: await claim.explain(
            "11", "'10 s'", "50", f"array['{HANDLER}']", "'{}'", "0", "'{}'", "''", "''", *lanes, "null",
            touched=True, table="deliveries",
        )
        for search, lanes in {"known": known, "all": ["null"] * 4}.items()
    }  # fmt: skip

    # The claim reads one row to probe the lane, 50 rows to choose, and the same 50 rows by their keys.
    assert 100 <= readings["known"].rows <= 105
    assert readings["all"].rows >= 2_500, "otherwise the test proves nothing"
    assert readings["known"].indexes == {"deliveries_by_lane", "deliveries_pkey"}
    await claim.connection.close()


async def test_with_fewer_slots_than_tenants_a_scan_never_reports_that_it_has_read_all_deliveries(
    dsn: str, worker: WorkerClient
) -> None:
    # Given two tenants with one delivery each, the first one claimed by another worker
    await add_deliveries(dsn, 1, tenant_id="'acme'")
    await add_deliveries(dsn, 1, tenant_id="'umbrella'")
    in_hand = "claimed_by = 5, claimed_until = now() + interval '10 s'"
    await query(dsn, f"update shardclock.deliveries set {in_hand} where tenant_id = 'acme'")

    # When a random choice gives the only free slot to one of the tenants
    found = [await worker.scan(places={HANDLER: 1}) for _ in range(12)]

    assert [it for it in found if not it.claimed and not it.saturated] == []
    assert sum(len(it.claimed) for it in found) == 1
