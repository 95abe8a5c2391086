"""Test that a member refuses a wrong connection, waits for an absent server, and works without an event loop, too."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from typing import Any

import asyncpg
import psycopg
import pytest

from shardclock.log import Batch, LogRecord, consume, consume_leased
from shardclock.log.failures import PoolerInBetween
from shardclock.sql import Conflict
from shardclock.sql.async_asyncpg import AsyncAsyncpg
from shardclock_server.sql.log.notifications import notify_of_records
from tests.support.consumers import append, capture_logs, connecting, consuming, group_of, until
from tests.support.factories import BOUND_S, query, value
from tests.support.roles import as_role
from tests.support.sql_client import session


async def awaited(*_: object) -> None:
    """Do no work."""


def plain(*_: object) -> None:
    """Do no work."""


def keys_of(records: Sequence[LogRecord]) -> list[int]:
    """List the keys of records."""
    return [record.timer_key for record in records]


@pytest.mark.parametrize("way", [consume, consume_leased])
async def test_work_that_does_not_fit_the_connection_is_refused_immediately(dsn: str, way: Any) -> None:
    with pytest.raises(TypeError, match="its connection is not awaited"):
        await way(lambda: psycopg.connect(dsn), "g", awaited)
    with pytest.raises(TypeError, match="work must be `async def`"):
        way(connecting(dsn), "g", plain)
    with pytest.raises(TypeError, match="is not a connection of psycopg"):
        way(lambda: "a connection", "g", plain)


async def test_a_connection_through_a_pooler_is_refused(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AsyncAsyncpg, "backend", 1)

    with pytest.raises(PoolerInBetween, match=r"backend 1 is expected.*not to a connection pooler"):
        await consume(connecting(dsn), "g", awaited)


async def test_the_isolation_level_of_a_database_is_overridden_and_that_of_a_connection_is_refused(dsn: str) -> None:
    await append(dsn, 1)
    name = dsn.partition("@/")[2].partition("?")[0]
    await query(dsn, f"alter database {name} set default_transaction_isolation = 'repeatable read'")
    seen: list[int] = []

    async def work(_: Any, records: Sequence[LogRecord]) -> None:
        seen.extend(keys_of(records))

    async with consuming(consume(connecting(as_role(dsn, "consumer")), "g", work)) as tasks:
        await until(lambda: seen == [1], *tasks)

    def snapshot() -> psycopg.Connection:
        connection = psycopg.connect(dsn)
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        return connection

    await append(dsn, 2)
    with pytest.raises(Conflict, match="use read committed"):
        consume(snapshot, "g", plain)


async def test_a_notification_wakes_an_idle_member_of_psycopg(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shardclock.log.async_member.POLL_S", 20.0)
    seen: list[int] = []

    async def work(_: Any, records: Sequence[LogRecord]) -> None:
        seen.extend(keys_of(records))

    consumer = as_role(dsn, "consumer")
    member = consume(lambda: psycopg.AsyncConnection.connect(consumer), "g", work)
    async with consuming(member) as tasks, session(dsn, "shard") as shard:
        for key in range(1, 6):  # without notifications, each record would wait for a poll
            await append(dsn, key)
            while key not in seen:
                await notify_of_records(shard)
                assert not tasks[0].done()
                await asyncio.sleep(0.005)

    assert seen == [1, 2, 3, 4, 5]


async def test_a_member_without_an_event_loop_waits_for_an_absent_server(dsn: str) -> None:
    await append(dsn, 1)
    opened: list[int] = []

    def connect() -> psycopg.Connection:
        opened.append(1)
        if len(opened) < 3:
            with socket.socket() as closed:
                closed.bind(("127.0.0.1", 0))
                return psycopg.connect(f"postgresql://127.0.0.1:{closed.getsockname()[1]}/none")
        return psycopg.connect(as_role(dsn, "consumer"))

    def work(_: object, records: Sequence[LogRecord]) -> None:
        raise SystemExit

    with capture_logs() as logs, pytest.raises(SystemExit):
        await asyncio.to_thread(consume, connect, "g", work)

    assert [(line["event"], line["times"]) for line in logs] == [
        ("Postgres does not answer", 1),
        ("Postgres does not answer", 2),
    ]


async def test_work_without_an_event_loop_keeps_its_lease_and_stops_when_it_is_lost(dsn: str) -> None:
    await append(dsn, 1, 2)
    until_of = "select leased_until from shardclock.consumers"
    kept: list[bool] = []

    def work(batch: Batch) -> None:
        if batch.records[0].timer_key == 2:
            raise SystemExit
        with psycopg.connect(dsn, autocommit=True) as other:
            first = other.execute(until_of).fetchone()
            while other.execute(until_of).fetchone() == first:
                pass
            kept.append(True)
            if len(kept) == 1:
                other.execute("update shardclock.consumers set lease = 1, leased_until = now()")
                while True:
                    batch.acknowledge(batch.records[0])

    with capture_logs() as logs, pytest.raises(SystemExit):
        async with asyncio.timeout(BOUND_S):
            await asyncio.to_thread(consume_leased, lambda: psycopg.connect(dsn), "g", work, lease_s=0.3)

    assert kept == [True, True]
    assert "lease lost" in [line["event"] for line in logs]
    assert (await group_of(dsn)).lag_records == 1
    assert await value(dsn, "select leased_until from shardclock.consumers") is None


async def test_a_missing_right_ends_a_member_at_once(dsn: str) -> None:
    with pytest.raises(Exception, match="permission denied"):
        await consume(lambda: asyncpg.connect(as_role(dsn, "scheduler")), "g", awaited)
