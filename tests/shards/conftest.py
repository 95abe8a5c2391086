"""Lend tests a pool of shards on an empty database, a client of theirs, and records of what shards ask of Postgres."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import asyncpg
import pytest

from shardclock_server.shards import shard as shard_module
from tests.support.shard_pool import ShardPool, connect, pool_of


@pytest.fixture
async def pool(dsn: str) -> AsyncIterator[ShardPool]:
    """Give a pool on Postgres 18."""
    async with pool_of(dsn) as one:
        yield one


@pytest.fixture
async def client(dsn: str) -> AsyncIterator[asyncpg.Connection]:
    """Give a client's connection, which may keep a transaction open."""
    connection = await connect(dsn)
    yield connection
    connection.terminate()


@pytest.fixture
def fire_calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record how many timers each fire statement was sent with."""
    return _recorded(monkeypatch, "fire_due", lambda _, __, firings, **___: len(firings))


@pytest.fixture
def claim_calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the scope of each scan, with a + where it fires by itself."""
    return _recorded(monkeypatch, "claim_due", lambda *args, fire_overdue, **_: args[2].scope + "+" * fire_overdue)


def _recorded(monkeypatch: pytest.MonkeyPatch, name: str, what: Callable[..., Any]) -> list[Any]:
    calls: list[Any] = []
    real = getattr(shard_module, name)

    async def recording(*args: Any, **kwargs: Any) -> Any:
        calls.append(what(*args, **kwargs))
        return await real(*args, **kwargs)

    monkeypatch.setattr(shard_module, name, recording)
    return calls
