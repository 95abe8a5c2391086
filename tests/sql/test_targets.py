"""Prove that the list of targets shows each target's tenant, when it was disabled, and how many deliveries it has."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from shardclock_server.sql.deliveries.targets import Target, list_targets
from shardclock_server.sql.endpoints.endpoints import EndpointName, StoredEndpoint, add_endpoint, disable_endpoint
from shardclock_server.sql.session import Session
from tests.support.deliveries import HANDLER, add_deliveries, add_worker, bury, declare
from tests.support.factories import query
from tests.support.job_runs import declare as declare_job
from tests.support.jobs import job_spec
from tests.support.plans import prepare
from tests.support.sql_client import session

pytestmark = pytest.mark.each_version

BILLING = "webhook:billing"


@pytest.fixture
async def operator(dsn: str) -> AsyncIterator[Session]:
    """Yield an operator's session, with two handlers, a job, and an endpoint each of two tenants."""
    await declare(dsn, HANDLER, "cart.left")
    await declare(dsn, HANDLER)
    await declare_job(dsn, job_spec("refresh"))
    async with session(dsn, "shard") as hand:
        for tenant in ("acme", "zoo"):
            await add_endpoint(hand, StoredEndpoint(tenant, "billing", "https://example.com/", {}, ("whsec_A",), {}))
        yield hand


async def listed(operator: Session, tenant_id: str | None = None, limit: int = 100) -> list[Target]:
    return await list_targets(operator, tenant_id=tenant_id, limit=limit)


async def test_each_target_is_listed_with_its_tenant_and_the_moment_of_its_closing(operator: Session) -> None:
    await disable_endpoint(operator, EndpointName("zoo", "billing"), why="moves house")

    found = await listed(operator)

    assert [(it.target, it.kind, it.tenant_id, it.closed_why) for it in found] == [
        ("log", "log", None, None),
        ("cart.left", "handler", None, "withdrawn"),
        (HANDLER, "handler", None, None),
        ("job:refresh", "job", "default", None),
        (BILLING, "webhook", "acme", None),
        (BILLING, "webhook", "zoo", "moves house"),
    ]
    assert [it.closed_at is not None for it in found] == [it.closed_why is not None for it in found]
    assert await listed(operator, limit=2) == found[:2]


async def test_a_tenant_s_list_has_the_targets_that_its_timers_may_name(operator: Session) -> None:
    acme, default = await listed(operator, "acme"), await listed(operator, "default")

    assert [it.target for it in acme] == ["log", "cart.left", HANDLER, BILLING]
    assert [it.target for it in default] == ["log", "cart.left", HANDLER, "job:refresh"]


async def test_open_deliveries_and_dead_letters_are_counted_for_each_target(dsn: str, operator: Session) -> None:
    await add_deliveries(dsn, 3)
    await add_deliveries(dsn, 2, tenant_id="'zoo'")
    await add_deliveries(dsn, 1_001, BILLING)
    await add_deliveries(dsn, 4, BILLING, tenant_id="'zoo'")
    await bury(dsn, 7)
    await bury(dsn, 6, BILLING)

    counts = {(it.target, it.tenant_id): (it.waiting, it.dead_letters) for it in await listed(operator)}

    assert counts == {
        ("log", None): (0, 0), ("cart.left", None): (0, 0), (HANDLER, None): (5, 7), ("job:refresh", "default"): (0, 0),
        (BILLING, "acme"): (1_000, 6), (BILLING, "zoo"): (4, 0),
    }  # fmt: skip
    of_zoo = {it.target: (it.waiting, it.dead_letters) for it in await listed(operator, "zoo")}
    assert of_zoo == {"log": (0, 0), "cart.left": (0, 0), HANDLER: (2, 0), BILLING: (4, 0)}, (
        "other targets are not shown"
    )


async def test_running_workers_are_counted_for_handlers_and_jobs(dsn: str, operator: Session) -> None:
    (function,) = [row[0] for row in await query(dsn, "select function from shardclock.jobs")]
    await add_worker(dsn, 11, targets=(HANDLER, "other"), functions=(function,))
    await add_worker(dsn, 12, 1, 2, targets=(HANDLER,))
    await add_worker(dsn, 13, targets=(HANDLER, "cart.left"))
    await query(dsn, "update shardclock.holders set ended_at = now(), ended_why = 'dead' where holder = 13")

    workers = {(it.target, it.tenant_id): it.workers for it in await listed(operator)}

    assert workers == {
        ("log", None): None, ("cart.left", None): 0, (HANDLER, None): 2, ("job:refresh", "default"): 1,
        (BILLING, "acme"): None, (BILLING, "zoo"): None,
    }  # fmt: skip


async def test_a_count_reads_no_deliveries_of_other_targets(dsn: str, operator: Session) -> None:
    await add_deliveries(dsn, 5_000)
    await add_deliveries(dsn, 4, BILLING, tenant_id="'zoo'")
    await query(dsn, "vacuum analyze shardclock.deliveries")
    every = await prepare(dsn, "list_targets", enable_seqscan="on", enable_bitmapscan="on", plan_cache_mode="auto")

    reading = await every.explain("null", "100", touched=True, table="deliveries")

    assert reading.rows <= 1_004
    assert reading.indexes == {"deliveries_by_lane"}
    await every.connection.close()
