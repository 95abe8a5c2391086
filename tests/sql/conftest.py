"""Fixtures: clients, holders with all slots, and databases with many timers.

Clients and holders are on `dsn`. A file with tests for each version of Postgres has its own fixture `dsn`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from tests.support.factories import HolderClient, add_holder, sql
from tests.support.job_runs import JobWorker
from tests.support.plans import fill
from tests.support.postgres import Server
from tests.support.scheduling import Ask, by_batch, by_sql


@pytest.fixture
async def client(dsn: str) -> AsyncIterator[HolderClient]:
    async with HolderClient(dsn, plans={}) as hand:
        yield hand


@pytest.fixture
async def other(dsn: str) -> AsyncIterator[HolderClient]:
    async with HolderClient(dsn, plans={}) as hand:
        yield hand


@pytest.fixture
async def worker(dsn: str) -> AsyncIterator[JobWorker]:
    """Yield a worker for jobs with all slots; a test file that names targets has its own workers for deliveries."""
    async with JobWorker(dsn, 11) as hand:
        yield hand


@pytest.fixture
async def another(dsn: str) -> AsyncIterator[JobWorker]:
    """Yield another worker that also believes that it has all slots."""
    async with JobWorker(dsn, 12) as hand:
        yield hand


@pytest.fixture
async def shard_ahead(shard: HolderClient) -> HolderClient:
    """Set the shard's clock two minutes ahead, so that the shard fires timers before their due dates."""
    shard.now = await shard.value("select now() + interval '2 minutes'")
    return shard


@pytest.fixture
async def shards(dsn: str) -> AsyncIterator[tuple[HolderClient, HolderClient]]:
    """Yield two holders that both believe that they have all slots, each with its own clock."""
    await add_holder(dsn, 101)
    await add_holder(dsn, 102)
    async with HolderClient(dsn, holder=101) as one, HolderClient(dsn, holder=102) as two:
        one.now = two.now = await one.value("select now()")
        yield one, two


@pytest.fixture(params=[by_sql, by_batch], ids=["sql", "batch"])
def ask(request: pytest.FixtureRequest) -> Ask:
    """Return in turn each of the two ways to schedule."""
    way: Ask = request.param
    return way


@pytest.fixture(scope="session")
def filled(postgres: Callable[[int], Server]) -> Iterator[str]:
    """Return the DSN of a database with 300,000 timers and without ANALYZE; tests must not change the database."""
    with postgres(18).database(fill) as dsn:
        yield dsn


@pytest.fixture(scope="session")
def analyzed(postgres: Callable[[int], Server], filled: str) -> Iterator[str]:
    """Return the DSN of a copy of the filled database, in which the planner knows the size of each table."""
    with postgres(18).database(of=filled) as dsn:
        sql(dsn, "analyze shardclock.timers")
        yield dsn


@pytest.fixture(params=["filled", "analyzed"], ids=["never_analyzed", "analyzed"])
def many(request: pytest.FixtureRequest) -> str:
    """Return the DSN of each of the two databases with many timers, in turn."""
    dsn: str = request.getfixturevalue(request.param)
    return dsn
