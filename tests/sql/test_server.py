"""Prove that Shardclock measures the server's connections, replicas, replication slots and write-ahead log."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest

from shardclock_server.sql.metrics.measures import ServerMeasures, measure_server
from shardclock_server.sql.session import Session
from tests.support.factories import query, value
from tests.support.waiting import eventually

MIB = 1 << 20


async def measure(dsn: str, role: str = "postgres") -> ServerMeasures:
    async with Session(dsn.replace("postgres:", f"{role}:", 1), application="test") as session:
        return await measure_server(session)


@pytest.fixture
async def nobody(each_dsn: str) -> AsyncIterator[str]:
    await query(each_dsn, "create role nobody login")
    yield "nobody"
    await query(each_dsn, "drop role nobody")


@asynccontextmanager
async def slot(dsn: str) -> AsyncIterator[None]:
    await query(dsn, "select pg_create_physical_replication_slot('gone', true)")
    try:
        yield
    finally:
        await query(dsn, "select pg_drop_replication_slot('gone')")


async def write_wal(dsn: str) -> None:
    """Write more than a mebibyte of write-ahead log."""
    text = "create table filler as select repeat(md5(i::text), 4) as t from generate_series(1, 20000) i"
    await query(dsn, text)
    await query(dsn, "drop table filler")


@pytest.mark.shared_database
async def test_connections_are_counted_against_the_limit_for_clients(each_dsn: str) -> None:
    before = await measure(each_dsn)
    assert 0 < before.connections < before.connections_max

    others = [await asyncpg.connect(each_dsn) for _ in range(3)]
    assert (await measure(each_dsn)).connections == before.connections + 3
    for other in others:
        await other.close()

    kept = await value(each_dsn, "select current_setting('superuser_reserved_connections')::int")
    assert before.connections_max == await value(each_dsn, "select current_setting('max_connections')::int") - kept


async def test_a_slot_without_a_reader_falls_behind(each_dsn: str) -> None:
    before = await measure(each_dsn)
    async with slot(each_dsn):
        await write_wal(each_dsn)
        measured = await measure(each_dsn)
    assert measured.slots_inactive == before.slots_inactive + 1
    assert measured.replica_lag_bytes is not None
    assert measured.replica_lag_bytes > MIB
    assert (await measure(each_dsn)).slots_inactive == before.slots_inactive


async def test_the_measured_wal_has_whole_segments_and_its_expected_size_comes_from_settings(
    each_dsn: str,
) -> None:
    measured = await measure(each_dsn)
    segment = await value(each_dsn, "select pg_size_bytes(current_setting('wal_segment_size'))")
    assert measured.wal_kept_bytes is not None
    assert measured.wal_kept_bytes >= segment
    assert measured.wal_kept_bytes % segment == 0
    assert measured.wal_expected_bytes == 4 * 1024 * MIB


async def test_a_role_with_few_rights_measures_the_figures_that_it_may_see(each_dsn: str, nobody: str) -> None:
    async with slot(each_dsn):
        await write_wal(each_dsn)
        measured, all_of_it = await measure(each_dsn, nobody), await measure(each_dsn)

        async def sees_all_connections() -> bool:
            return (await measure(each_dsn, nobody)).connections == (await measure(each_dsn)).connections

        await eventually(sees_all_connections)  # a closed connection's backend ends a moment after the connection

    assert measured.wal_kept_bytes is None
    assert (measured.replica_lag_bytes or 0) > MIB
    assert measured.slots_inactive == all_of_it.slots_inactive

    await query(each_dsn, "grant pg_monitor to nobody")
    assert (await measure(each_dsn, nobody)).wal_kept_bytes is not None
