"""Prove that a hand-over adds no reads to a firing, and costs nothing if no worker has granted a delivery."""

from __future__ import annotations

import json

import pytest

from tests.support.deliveries import HANDLER, add_worker, declare
from tests.support.factories import add_holder, add_timers, query
from tests.support.plans import DUE, SLOTS, granting, nodes_of, prepare, taking

WORKERS = (11, 12)
TARGETS = (HANDLER, *(f"other.{number}" for number in range(15)))


@pytest.fixture
async def full(dsn: str) -> str:
    """Return a database in which all due timers call a handler, with two living and a thousand ended workers."""
    await declare(dsn, HANDLER)
    await add_holder(dsn, 1)
    for part, worker in enumerate(WORKERS):
        await add_worker(dsn, worker, part, len(WORKERS))
    await add_timers(dsn, 20_000, "now() + interval '1 day'")
    await add_timers(dsn, DUE, target=f"'{HANDLER}'")
    ended = """
        insert into shardclock.holders (holder, role, cluster_id, actor_name, node_id, host, pid, ended_at, ended_why)
        select 1000 + i, 'worker', 'test', 'test', 'test', 'test', 1, now() - i * interval '1 minute', 'test'
        from generate_series(1, 1000) i
    """
    await query(dsn, ended)
    return dsn


async def test_a_firing_that_hands_over_reads_each_timer_as_often_as_before_and_each_worker_once(full: str) -> None:
    fire = await prepare(full, "claim_due")
    grants = granting(WORKERS, TARGETS, 300)

    timers = await fire.explain(*taking(1, fire_overdue=True, grants=grants))
    holders = await fire.explain(*taking(1, fire_overdue=True, grants=grants), table="holders")

    assert timers.rows <= 3 * DUE * 1.1
    assert timers.indexes == {"timers_by_slot", "timers_pkey"}
    assert holders.rows <= len(WORKERS) + 2, "the shard itself, and recently ended holders"
    await fire.connection.close()


@pytest.mark.parametrize("is_granted", [True, False], ids=["with places", "without"])
async def test_without_granted_places_no_timer_is_compared_with_the_grants(full: str, is_granted: bool) -> None:
    fire = await prepare(full, "claim_due")
    grants = granting(WORKERS, [HANDLER], SLOTS) if is_granted else None
    arguments = ", ".join(taking(1, fire_overdue=True, grants=grants))
    call = f"explain (analyze, timing off, format json) execute claim_due ({arguments})"
    transaction = fire.connection.transaction()
    await transaction.start()

    plan = json.loads(await fire.connection.fetchval(call))[0]["Plan"]

    await transaction.rollback()
    (given,) = (node for node in nodes_of(plan) if node.get("Subplan Name") == "CTE given")
    compared = [node["Actual Loops"] for node in nodes_of(given) if node.get("CTE Name") == "fired"]
    assert bool(sum(compared)) is is_granted
    await fire.connection.close()


async def test_a_heartbeat_reads_only_the_workers_on_its_machine(full: str) -> None:
    beat = await prepare(full, "beat")

    reading = await beat.explain("1", "0", table="holders")

    assert reading.rows <= len(WORKERS) + 2
    assert reading.indexes == {"holders_pkey", "holders_workers"}
    await beat.connection.close()
