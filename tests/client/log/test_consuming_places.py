"""Test that working members share the partitions, and don't block the maintenance of the log."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import pytest

from shardclock.log import LogRecord
from shardclock.log import async_consuming as consuming_module
from shardclock.log.async_groups import open_group
from shardclock.log.async_leasing import lease_batch
from shardclock_server.sql.log.partitions import drop_log_partition, ensure_log_partitions
from shardclock_server.sql.session import Connection
from tests.support import sql_client
from tests.support.consumers import append, consume, consume_once, consuming, group_of, member_session, until
from tests.support.factories import BOUND_S, live_through, query
from tests.support.log_days import add_records, days_ahead, lose, partitions
from tests.support.roles import OPERATOR, as_role

operator = partial(sql_client.session, role=OPERATOR)


async def nothing(*_: object) -> None:
    """Do no work."""


async def test_daily_partitions_can_be_created_and_dropped_during_the_work(dsn: str) -> None:
    await lose(dsn, *days_ahead(3, 3))
    await add_records(dsn, -40)
    await live_through(dsn, 45)
    async with member_session(dsn) as member:
        assert await consume_once(member, "g", nothing) == 3
    await append(dsn, 1)
    at_work, go_on = asyncio.Event(), asyncio.Event()

    async def work(*_: object) -> None:
        at_work.set()
        await go_on.wait()

    async with consuming(consume(as_role(dsn, "consumer"), "g", work)) as tasks:
        await until(at_work.is_set, *tasks)
        async with operator(dsn) as coordinator:
            assert await ensure_log_partitions(coordinator) == 1
            oldest = await drop_log_partition(coordinator, keep_days=30)
        go_on.set()

    assert oldest is not None
    assert oldest.dropped
    assert await partitions(dsn) == [*days_ahead(0, 7), "default"]


async def test_concurrent_members_get_one_partition_each(dsn: str) -> None:
    await append(dsn, *range(8))
    partitions = 4
    all_at_work = asyncio.Barrier(partitions)
    done: list[list[int]] = []

    async def work(_: Connection, found: Sequence[LogRecord]) -> None:
        await all_at_work.wait()
        done.append([record.timer_key for record in found])

    async with AsyncExitStack() as opened, asyncio.timeout(BOUND_S):
        members = [await opened.enter_async_context(member_session(dsn)) for _ in range(partitions)]
        await open_group(members[0], "g", partitions)
        counts = await asyncio.gather(*(consume_once(member, "g", work) for member in members))

    assert counts == [2, 2, 2, 2]
    assert sorted(done) == [[key, key + partitions] for key in range(partitions)]


async def test_a_partition_is_locked_before_its_records_are_read(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    await append(dsn, 1, 2, 3)
    found_by_others: list[object] = []
    read = consuming_module._read

    async def slowly(*arguments: Any) -> Any:
        rows = await read(*arguments)
        async with member_session(dsn) as other:
            found_by_others.append(await consume_once(other, "g", nothing))
            found_by_others.append(await lease_batch(other, "g", limit=3))
        return rows

    async with member_session(dsn) as member:
        await open_group(member, "g")
        with monkeypatch.context() as patched:
            patched.setattr(consuming_module, "_read", slowly)
            assert await consume_once(member, "g", nothing) == 3

    assert found_by_others == [0, None]


@pytest.mark.slow
async def test_more_members_than_partitions_do_each_record_once(dsn: str) -> None:
    await query(dsn, "create table done (position bigint)")
    await query(dsn, "grant select, insert on done to public")
    await append(dsn, *range(1, 301))

    async def work(connection: Connection, found: Sequence[LogRecord]) -> None:
        await connection.executemany("insert into done values ($1)", [(it.position,) for it in found])

    async with consuming(*(consume(as_role(dsn, "consumer"), "g", work, partitions=2) for _ in range(5))) as tasks:
        for key in range(301, 601):
            await append(dsn, key)
        while (await group_of(dsn)).lag_records:
            assert not any(task.done() for task in tasks)

    rows = await query(dsn, "select position from done")
    assert set(Counter(row["position"] for row in rows).values()) == {1}
    assert len(rows) == 600


async def test_consume_once_skips_partitions_without_records(dsn: str) -> None:
    await append(dsn, 3)
    async with member_session(dsn) as member:
        assert await open_group(member, "g", 4) == 4

        assert [await consume_once(member, "g", nothing) for _ in range(2)] == [1, 0]
