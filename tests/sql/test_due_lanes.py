"""Prove that an endpoint with a due delivery is found without reading all other endpoints."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator

import pytest

from shardclock_server.sql.deliveries.claim import DeliveryScan, Lane, Position, claim_deliveries, find_due_lanes
from tests.support.deliveries import WorkerClient, add_deliveries, add_worker
from tests.support.factories import query
from tests.support.plans import prepare

pytestmark = pytest.mark.each_version

MANY = 20_000
FIRST = Lane("webhook:first", "umbrella")


@pytest.fixture
async def worker(dsn: str) -> AsyncIterator[WorkerClient]:
    await add_worker(dsn, 11)
    async with WorkerClient(dsn, 11, targets=[]) as hand:
        yield hand


async def add_endpoints(dsn: str, count: int, *, at: str = "now() - interval '1 s'", tenant_id: str = "acme") -> None:
    await add_deliveries(dsn, count, "webhook:hook", next_attempt_at=at, tenant_id=f"'{tenant_id}'")
    await query(
        dsn,
        "update shardclock.deliveries set target = 'webhook:hook-' || timer_key"
        " where target = 'webhook:hook' and tenant_id = $1",
        tenant_id,
    )


async def add_first(dsn: str, at: str = "now() - interval '0.5 s'") -> None:
    """Insert the first delivery of a second tenant, to this tenant's endpoint."""
    await add_deliveries(dsn, 1, FIRST.target, next_attempt_at=at, tenant_id=f"'{FIRST.tenant_id}'")


async def test_the_first_delivery_of_a_tenant_is_found_with_few_reads_among_many_endpoints_of_another_tenant(
    dsn: str,
) -> None:
    await add_endpoints(dsn, MANY, at="now() + interval '1 h'")
    await add_endpoints(dsn, MANY // 2, at="now() - interval '1 h'", tenant_id="initech")
    await add_first(dsn)
    await query(dsn, "analyze shardclock.deliveries")
    find = await prepare(dsn, "find_due_lanes")

    reading = await find.explain("null", "null", "2000", "20", "null", touched=True, table="deliveries")

    assert reading.rows <= 5
    assert reading.indexes == {"deliveries_of_endpoints"}
    await find.connection.close()


async def test_some_endpoints_of_one_large_tenant_and_all_endpoints_of_other_tenants_are_found(
    dsn: str, worker: WorkerClient
) -> None:
    await add_endpoints(dsn, 500)
    await add_first(dsn)

    found = await find_due_lanes(worker.claims, None, deliveries=1_000, each=20)

    assert len(found.lanes) == 21
    assert found.lanes.keys() - {FIRST} == {lane for lane in found.lanes if lane.tenant_id == "acme"}
    assert found.more is None


async def test_deliveries_with_the_same_due_date_are_read_in_parts_and_none_is_read_twice(
    dsn: str, worker: WorkerClient
) -> None:
    await add_endpoints(dsn, 250, at="date_trunc('second', now()) - interval '1 s'")
    behind, found = None, list[Lane]()
    for _ in range(4):
        part = await find_due_lanes(worker.claims, behind, deliveries=100, each=1_000)
        found += part.lanes
        if (behind := part.more) is None:
            break

    assert len(found) == len(set(found)) == 250


async def test_the_position_of_a_lane_is_before_the_soonest_delivery_that_was_read(
    dsn: str, worker: WorkerClient
) -> None:
    await add_first(dsn, "now() - interval '0.3 s'")
    await add_first(dsn, "now() - interval '0.6 s'")
    await add_first(dsn, "now() + interval '1 h'")

    found = await find_due_lanes(worker.claims, None, deliveries=100, each=20)
    scan = DeliveryScan([], 10, webhooks=10, lanes=found.lanes)
    claimed = (await claim_deliveries(worker.claims, 11, scan, lease_s=10.0)).claimed

    assert found.lanes.keys() == {FIRST}
    assert sorted(it.timer_key for it in claimed) == [1, 2]


async def test_a_reading_begins_after_its_position(dsn: str, worker: WorkerClient) -> None:
    await add_first(dsn)
    (row,) = await query(dsn, "select next_attempt_at, timer_key from shardclock.deliveries")

    behind = Position(row["next_attempt_at"], row["timer_key"])

    assert not (await find_due_lanes(worker.claims, behind, deliveries=100, each=20)).lanes
    before = behind._replace(timer_key=behind.timer_key - 1)
    assert (await find_due_lanes(worker.claims, before, deliveries=100, each=20)).lanes.keys() == {FIRST}


async def test_no_delivery_to_a_new_endpoint_is_claimed_if_its_tenant_has_used_its_share(
    dsn: str, worker: WorkerClient
) -> None:
    await add_endpoints(dsn, 50)
    await add_first(dsn)
    scan = DeliveryScan([], 20, webhooks=1, full_tenants=["acme"])

    assert [it.tenant_id for it in (await claim_deliveries(worker.claims, 11, scan, lease_s=10.0)).claimed] == [
        FIRST.tenant_id
    ]
    (known,) = await query(dsn, "select target from shardclock.deliveries where tenant_id = 'acme' limit 1")
    entry = dataclasses.replace(scan, places={f"{known['target']} acme": 1})
    assert [it.target for it in (await claim_deliveries(worker.claims, 11, entry, lease_s=10.0)).claimed] == [
        known["target"]
    ]
