"""Lend tests clients, holders that keep all slots, and databases with many timers.

Clients and holders are on `dsn`. A file whose tests run on each version of Postgres has a fixture `dsn` of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from tests.support.factories import HolderClient, add_holder, query
from tests.support.job_runs import JobWorker
from tests.support.plans import fill
from tests.support.postgres import Server
from tests.support.scheduling import Ask, by_batch, by_sql


@pytest.fixture
async def client(dsn: str) -> AsyncIterator[HolderClient]:
    """Give a client."""
    async with HolderClient(dsn, plans={}) as hand:
        yield hand


@pytest.fixture
async def other(dsn: str) -> AsyncIterator[HolderClient]:
    """Give another client."""
    async with HolderClient(dsn, plans={}) as hand:
        yield hand


@pytest.fixture
async def worker(dsn: str) -> AsyncIterator[JobWorker]:
    """Give a worker that keeps all slots, for jobs; those of deliveries need targets, which their files say."""
    async with JobWorker(dsn, 11) as hand:
        yield hand


@pytest.fixture
async def another(dsn: str) -> AsyncIterator[JobWorker]:
    """Give another worker that believes to keep all slots."""
    async with JobWorker(dsn, 12) as hand:
        yield hand


@pytest.fixture
async def shard_ahead(shard: HolderClient) -> HolderClient:
    """Set the shard's clock two minutes ahead, so what it fires is not due yet."""
    shard.now = await shard.value("select now() + interval '2 minutes'")
    return shard


@pytest.fixture
async def shards(dsn: str) -> AsyncIterator[tuple[HolderClient, HolderClient]]:
    """Give two holders that believe to keep all slots, and have a clock each."""
    await add_holder(dsn, 101)
    await add_holder(dsn, 102)
    async with HolderClient(dsn, holder=101) as one, HolderClient(dsn, holder=102) as two:
        one.now = two.now = await one.value("select now()")
        yield one, two


@pytest.fixture(params=[by_sql, by_batch], ids=["sql", "batch"])
def ask(request: pytest.FixtureRequest) -> Ask:
    """Give both ways to schedule, in turn."""
    way: Ask = request.param
    return way


@pytest.fixture(scope="session")
def filled(postgres: Callable[[int], Server]) -> Iterator[str]:
    """Name a database with 300,000 timers that was never analyzed, which tests leave as it is."""
    server = postgres(18)
    dsn = server.clone()
    asyncio.run(fill(dsn))
    yield dsn
    server.drop(dsn)


@pytest.fixture(scope="session")
def analyzed(postgres: Callable[[int], Server], filled: str) -> Iterator[str]:
    """Name its copy, in which the planner knows the size of each table."""
    server = postgres(18)
    dsn = server.clone(of=filled)
    asyncio.run(query(dsn, "analyze shardclock.timers"))
    yield dsn
    server.drop(dsn)


@pytest.fixture(params=["filled", "analyzed"], ids=["never_analyzed", "analyzed"])
def many(request: pytest.FixtureRequest) -> str:
    """Name each of the two databases with many timers, in turn."""
    dsn: str = request.getfixturevalue(request.param)
    return dsn
