"""Fixtures: a pool of shards on an empty database, a client's connection, and records of the shards' statements."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import asyncpg
import pytest

from shardclock_server.shards import shard as shard_module
from tests.support.shard_pool import ShardPool, connect, pool_of


@pytest.fixture
async def pool(dsn: str) -> AsyncIterator[ShardPool]:
    async with pool_of(dsn) as one:
        yield one


@pytest.fixture
async def client(dsn: str) -> AsyncIterator[asyncpg.Connection]:
    """Yield a client's connection, on which a test may keep a transaction open."""
    connection = await connect(dsn)
    yield connection
    connection.terminate()


@pytest.fixture
def fire_calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the number of timers in each sent fire statement."""
    return _recorded(monkeypatch, "fire_due", lambda _, __, firings, **___: len(firings))


@pytest.fixture
def claim_calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the scope of each scan, with a + if the scan itself fires overdue timers."""
    return _recorded(monkeypatch, "claim_due", lambda *args, fire_overdue, **_: args[2].scope + "+" * fire_overdue)


def _recorded(monkeypatch: pytest.MonkeyPatch, name: str, select: Callable[..., Any]) -> list[Any]:
    calls: list[Any] = []
    real = getattr(shard_module, name)

    async def recording(*args: Any, **kwargs: Any) -> Any:
        calls.append(select(*args, **kwargs))
        return await real(*args, **kwargs)

    monkeypatch.setattr(shard_module, name, recording)
    return calls
