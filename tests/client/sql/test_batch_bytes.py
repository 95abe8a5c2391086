"""Test that a batch of a consumer ends at the byte limit, skips no record, and reads no later payload."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

import asyncpg
import psycopg
import pytest

from shardclock.log import AsyncBatch, LogRecord, consume_leased, consume_once, read_log
from shardclock.log.async_reading import PAGE_BYTES
from tests.support.consumers import LOG_COLUMNS, group_of
from tests.support.factories import BOUND_S, query, value
from tests.support.waiting import eventually

LARGE = "to_jsonb(repeat('\"', 30000))"  # takes about 350 bytes in the table, and 120,003 bytes in the answer
LARGE_BYTES = 120_000
LARGEST_FITTING = PAGE_BYTES // LARGE_BYTES + 1
# takes 60,800 bytes, which are in the toast table
INCOMPRESSIBLE = "to_jsonb((select string_agg(md5(k::text || n::text), '') from generate_series(1, 1900) n))"
TOAST_BLOCKS = """
select sum(coalesce(toast_blks_read, 0) + coalesce(toast_blks_hit, 0))::bigint from pg_statio_user_tables
where schemaname = 'shardclock' and relname like 'command_log%'
"""

Connect = Callable[[str], Awaitable[Any]]


async def _asyncpg(dsn: str) -> Any:
    return await asyncpg.connect(dsn, timeout=BOUND_S)


async def _psycopg(dsn: str) -> Any:
    return await psycopg.AsyncConnection.connect(dsn)


CONNECTS = pytest.mark.parametrize("connect", [_asyncpg, _psycopg], ids=["asyncpg", "psycopg"])


async def _append(dsn: str, first: int, last: int, payload: str = "null::jsonb") -> None:
    """Append a record for each key of a range; the block statistics are written when it returns."""
    await query(
        dsn,
        f"with appended as (insert into shardclock.command_log ({LOG_COLUMNS}, payload)"
        f" select k, now(), now(), 1, 'TRIGGERED', 'default', 'USER', 'log', {payload}"
        " from generate_series($1::bigint, $2) k order by k)"
        " select pg_stat_force_next_flush()",
        first,
        last,
    )


async def _without_autovacuum(dsn: str) -> None:
    """Turn autovacuum off, so that it reads no payloads of the log."""
    for day in await query(
        dsn, "select relid::regclass::text from pg_partition_tree('shardclock.command_log') where isleaf"
    ):
        await query(dsn, f"alter table {day['relid']} set (autovacuum_enabled = off)")


async def _read(connection: Any, after: int) -> list[LogRecord]:
    records: list[LogRecord] = await cast("Any", read_log(connection, after, limit=500))
    return records


@CONNECTS
async def test_consume_once_ends_a_batch_at_the_byte_limit_and_continues_after_it(dsn: str, connect: Connect) -> None:
    await _append(dsn, 1, 300)
    await _append(dsn, 301, 400, LARGE)
    batches: list[list[int]] = []

    async def work(_: Any, records: Sequence[LogRecord]) -> None:
        batches.append([record.timer_key for record in records])

    connection = await connect(dsn)
    try:
        while await consume_once(connection, "g", work, limit=5_000):
            pass
    finally:
        await connection.close()

    assert [key for batch in batches for key in batch] == list(range(1, 401))
    assert 300 < len(batches[0]) <= 300 + LARGEST_FITTING
    assert max(map(len, batches[1:])) <= LARGEST_FITTING
    assert (await group_of(dsn)).lag_records == 0


@CONNECTS
async def test_a_lease_ends_at_the_byte_limit_and_the_next_lease_begins_after_it(dsn: str, connect: Connect) -> None:
    await _append(dsn, 1, 100, LARGE)
    batches: list[list[int]] = []
    all_done = asyncio.Event()

    async def work(batch: AsyncBatch) -> None:
        batches.append([record.timer_key for record in batch.records])
        if batches[-1][-1] == 100:
            all_done.set()

    member = asyncio.create_task(cast("Any", consume_leased(lambda: connect(dsn), "g", work)))
    try:
        async with asyncio.timeout(BOUND_S):
            await all_done.wait()
    finally:
        member.cancel()
        await asyncio.gather(member, return_exceptions=True)

    assert [key for batch in batches for key in batch] == list(range(1, 101))
    assert max(map(len, batches)) <= LARGEST_FITTING


async def test_a_read_returns_a_record_that_is_larger_than_the_byte_limit(dsn: str) -> None:
    await _append(dsn, 1, 2, "to_jsonb(repeat('x', 5000000))")
    connection = await _asyncpg(dsn)
    try:
        first = await _read(connection, 0)
        second = await _read(connection, first[-1].position)
        rest = await _read(connection, second[-1].position)
    finally:
        await connection.close()

    assert [[record.timer_key for record in records] for records in (first, second, rest)] == [[1], [2], []]


async def test_a_read_does_not_load_payloads_beyond_the_byte_limit(dsn: str) -> None:
    await _without_autovacuum(dsn)
    await _append(dsn, 1, 500, INCOMPRESSIBLE)
    before = await value(dsn, TOAST_BLOCKS)
    connection = await _asyncpg(dsn)
    try:
        found = await _read(connection, 0)
        await connection.execute("select pg_stat_force_next_flush()")
    finally:
        await connection.close()
    loaded_blocks = 8 * len(found)  # at least, without the index of the payload's chunks

    async def is_written() -> bool:
        return bool(await value(dsn, TOAST_BLOCKS) - before >= loaded_blocks)

    await eventually(is_written)  # the statistics, which a closed connection writes at its end
    used = await value(dsn, TOAST_BLOCKS) - before

    per_record = 12  # the payload's chunks have eight blocks, and their index has some more
    assert 60 < len(found) < 80
    assert used <= len(found) * per_record
