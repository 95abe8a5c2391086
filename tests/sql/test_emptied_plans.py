"""No statement reads a whole table for each row, even with a plan that Postgres made while the table was empty.

A queue is empty most of the time, and for an empty table Postgres computes the same cost for every plan. A session with
a bad plan would later read all waiting rows for each searched row.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest

from shardclock_server.sql.session import QUEUE_PLANS
from shardclock_server.sql.statements import statement
from tests.support.factories import BOUND_S
from tests.support.statement_headers import NAMES

GROWING = {
    "business_keys", "dead_letters", "deliveries", "incidents", "instance_steps", "instances", "job_runs", "messages",
    "process_starts", "requests", "subscriptions", "task_acts", "tasks", "timers",
}  # fmt: skip
NO_PLAN = {"lock_api_keys"}  # the statement locks a table
# These statements read an index once, from its start, and at most one page of rows.
FROM_THE_BEGINNING = {("measure_processes", "deliveries_deferred")}
# The search of a clock that tests move reads all rows, because a test's database is small.
OF_TESTS = {"next_due"}
STATEMENTS = [name for name in NAMES if name not in NO_PLAN | OF_TESTS]


def repeated(node: dict[str, Any], *, again: bool = False) -> Iterator[dict[str, Any]]:
    """Return the scans that run once for each row of another scan, or in a subquery."""
    if again and node["Node Type"].endswith("Scan"):
        yield node
    for part in node.get("Plans", []):
        is_inner = node["Node Type"] == "Nested Loop" and part["Parent Relationship"] == "Inner"
        yield from repeated(part, again=again or is_inner or "SubPlan" in part.get("Subplan Name", ""))


def is_probe(scan: dict[str, Any]) -> bool:
    return not {"Index Cond", "Recheck Cond", "TID Cond"}.isdisjoint(scan)


@pytest.fixture(scope="module")
def plans() -> dict[str, str]:
    """Return the settings of the sessions of shards, workers and engines, which plan each statement once."""
    return {**QUEUE_PLANS, "plan_cache_mode": "force_generic_plan"}


async def test_every_statement_probes_an_index_for_each_row_that_it_searches(
    each_dsn: str, plans: dict[str, str]
) -> None:
    connection = await asyncpg.connect(each_dsn, timeout=BOUND_S)
    await connection.execute("vacuum (analyze)")
    await connection.close()
    connection = await asyncpg.connect(each_dsn, timeout=BOUND_S, server_settings=plans)
    whole, scans = set[tuple[str, str]](), 0
    for name in STATEMENTS:
        for scan in repeated(await plan_of(connection, name)):
            scans += 1
            if scan.get("Relation Name") in GROWING and not is_probe(scan):
                whole.add((name, scan.get("Index Name", scan["Relation Name"])))
    await connection.close()

    assert whole == FROM_THE_BEGINNING
    assert scans > 100, "the plans were read"


async def plan_of(connection: asyncpg.Connection[Any], name: str) -> dict[str, Any]:
    asked = statement(name)
    given = ", ".join(["null"] * len(asked.parameters))
    await connection.execute(f"prepare {name} as {asked.text}")
    async with connection.transaction():
        said = await connection.fetchval(f"explain (format json) execute {name}{f'({given})' if given else ''}")
    plan: dict[str, Any] = json.loads(said)[0]["Plan"]
    return plan


def test_the_statements_are_found() -> None:
    assert len(STATEMENTS) > 100
