"""Run processes on real Postgres, with the statements of production, and a clock that the test moves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import asyncpg

import shardclock
from shardclock_server.cluster.testing import SteppedCluster, cluster
from shardclock_server.engine.stepped import SteppedEngine
from shardclock_server.service import processes
from shardclock_server.shards.stepped import SteppedShard
from shardclock_server.sql.processes import instances
from shardclock_server.sql.processes.instances import WholeInstance
from shardclock_server.sql.session import Session
from tests.support.bpmn import model
from tests.support.factories import BOUND_S, query

NOW = datetime(2026, 3, 1, 8, tzinfo=UTC)
APP = "tests.support.bpmn_cluster"


@shardclock.on_timer("charge")
async def charge(timer: shardclock.Timer) -> dict[str, Any]:
    """Charge an amount; a handler for service tasks of this type."""
    assert isinstance(timer.payload, dict)
    if timer.payload.get("fails"):
        raise shardclock.Discard("the card is expired")
    if code := timer.payload.get("throws"):
        raise shardclock.BpmnError(code, "no money", {"missing": 12})
    return {"charged": timer.payload.get("amount", 1)}


@shardclock.on_timer("flaky")
async def flaky(timer: shardclock.Timer) -> None:
    """Fail at each attempt: the handler of the flaky service task, by default with 20 attempts."""
    raise RuntimeError("the line is busy")


@shardclock.on_timer("bill", max_attempts=2)
async def bill(timer: shardclock.Timer) -> dict[str, Any]:
    """Return a value that JSON can't hold."""
    return {"amount": Decimal("1.50")}


@dataclass
class Processes:
    """A cluster, a clock that the test moves, and a client's session."""

    cluster: SteppedCluster
    session: Session

    @property
    def engine(self) -> SteppedEngine:
        return self.cluster._keepers.engine

    @property
    def shard(self) -> SteppedShard:
        return self.cluster._keepers.shard

    async def deploy(self, elements: str, **written: str) -> int:
        """Deploy a model of one process, `p` by default; return the definition's key."""
        process_id = written.get("process_id", "p")
        deployed = await processes.deploy(self.session, model(elements, **written), resource=f"{process_id}.bpmn")
        return deployed[0].definition_key

    async def start(self, process_id: str = "p", **variables: Any) -> int:
        key = await processes.start(self.session, process_id, variables=variables)
        await self.settle()
        return key

    async def settle(self) -> None:
        await self.cluster.advance("PT0S")

    async def advance(self, by: str) -> None:
        await self.cluster.advance(by)

    async def see(self, key: int) -> WholeInstance:
        return await processes.find(self.session, key)

    async def state(self, key: int) -> str:
        return (await self.see(key)).found.state

    async def history(self, key: int) -> list[str]:
        """Return the moves of tokens, as `s+`, `s-`, `ax`."""
        marks = {"entered": "+", "left": "-", "terminated": "x"}
        steps = await instances.steps_of(self.session, key)
        return [f"{node}{marks[change]}" for step in steps for _, node, change in step.passes]

    async def stale(self, key: int) -> list[str]:
        """Name the kinds of the signals without a receiver."""
        steps = await instances.steps_of(self.session, key)
        return [said["kind"] for step in steps for said in step.signals if said.get("stale")]

    async def query(self, text: str, *values: object) -> list[dict[str, Any]]:
        return [dict(row) for row in await query(self.cluster.dsn, text, *values)]


@asynccontextmanager
async def running(app: str = "") -> AsyncIterator[Processes]:
    async with cluster(app, now=NOW) as made, Session(made.dsn, application="test") as session:
        yield Processes(made, session)


@asynccontextmanager
async def holding(it: Processes, statement: str, *values: object, commits: bool = False) -> AsyncIterator[None]:
    """Run a statement in a client's transaction, and keep the transaction open; at the end roll back, or commit."""
    connection = await asyncpg.connect(it.cluster.dsn, timeout=BOUND_S)
    transaction = connection.transaction()
    await transaction.start()
    try:
        await connection.execute(statement, *values, timeout=BOUND_S)
        yield
    finally:
        await (transaction.commit() if commits else transaction.rollback())
        await connection.close(timeout=BOUND_S)
