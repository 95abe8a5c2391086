"""Prove that each record has a partition: future partitions exist, and the default partition takes other records."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from shardclock_server.sql.log.partitions import drop_log_partition, ensure_log_partitions
from shardclock_server.sql.session import StoreUnavailable
from tests.support import sql_client
from tests.support.consumers import consume_once
from tests.support.factories import (
    HolderClient,
    add_holder,
    add_timers,
    ends,
    intents,
    live_through,
    query,
    value,
    waits,
)
from tests.support.log_days import (
    RECORDS,
    add_records,
    day_ahead,
    days_ahead,
    homes,
    lose,
    nothing,
    partitions,
    read_keys,
    session,
)
from tests.support.roles import OPERATOR
from tests.support.sql_client import call

# Made ahead


async def test_today_and_the_next_week_have_partitions_and_a_second_call_creates_no_partition(each_dsn: str) -> None:
    expected = [*days_ahead(0, 7), "default"]
    assert await partitions(each_dsn) == expected

    async with session(each_dsn) as client:
        assert await ensure_log_partitions(client) == 0

    assert await partitions(each_dsn) == expected


async def test_missing_partitions_are_made_once_by_many_at_a_time(each_dsn: str) -> None:
    await lose(each_dsn, *days_ahead(3, 5))
    await add_records(each_dsn, -1, partition=False)
    clients = [session(each_dsn) for _ in range(4)]

    made = await asyncio.gather(*(ensure_log_partitions(client) for client in clients))

    assert sorted(made) == [0, 0, 0, 4]
    assert await partitions(each_dsn) == [*days_ahead(-1, 7), "default"]
    for client in clients:
        await client.close()


async def test_a_new_partition_is_like_the_log_in_columns_and_indexes(dsn: str) -> None:
    shape = """
        select array_agg(attname || ' ' || atttypid::regtype || attnotnull || coalesce(pg_get_expr(adbin, adrelid), '')
            order by attnum), (select count(*) from pg_index where indrelid = attrelid)
        from pg_attribute left join pg_attrdef on adrelid = attrelid and adnum = attnum
        where attnum > 0 and attrelid = any ($1::text[]::regclass[])
        group by attrelid"""
    await lose(dsn, *days_ahead(2, 2))
    await add_records(dsn, -1, partition=False)
    async with session(dsn) as client:
        await ensure_log_partitions(client)

    made = [f"shardclock.command_log_{name}" for name in (*days_ahead(2, 2), *days_ahead(-1, -1))]
    rows = await query(dsn, shape, ["shardclock.command_log", *made])

    assert len(rows) == 3
    assert rows[0] == rows[1] == rows[2]


async def test_a_record_is_in_the_partition_of_its_day(each_dsn: str) -> None:
    (key,) = await add_timers(each_dsn, 1)
    await query(each_dsn, "select shardclock.cancel_timer($1)", key)

    at = await value(each_dsn, "select to_char(recorded_at at time zone 'UTC', 'YYYYMMDD') from shardclock.command_log")
    assert await homes(each_dsn) == {at: 1}


async def test_while_a_transaction_holds_the_log_open_no_day_is_made_and_no_writer_waits(dsn: str) -> None:
    """While a dump runs for hours, clients and shards schedule, fire and cancel timers without a wait."""
    await lose(dsn, *days_ahead(7, 7))
    await add_holder(dsn, 1)
    key, _ = await add_timers(dsn, 2)
    async with (
        HolderClient(dsn, role=OPERATOR) as dump,
        HolderClient(dsn, role=OPERATOR) as maker,
        HolderClient(dsn, holder=1) as shard,
        HolderClient(dsn, role=OPERATOR) as client,
    ):
        await dump.begin()
        await dump.value("select count(*) from shardclock.command_log")
        await client.value("set lock_timeout = 1")  # any wait fails
        await maker.begin()
        with pytest.raises(asyncpg.LockNotAvailableError):
            await maker.connection.execute("savepoint before; select shardclock.ensure_log_partitions()")

        # The transaction that could not make partitions is still open, but holds no locks.
        held = (await shard.take()).claimed
        assert key in (await shard.fire(held)).timer_keys
        assert await client.cancel(timer_key=key) == "TRIGGERED"
        await maker.rollback()

        with pytest.raises(StoreUnavailable, match="command_log_default"):
            await ensure_log_partitions(maker.session)
        await dump.commit()
        assert await ensure_log_partitions(maker.session) == 1


async def test_a_day_is_kept_because_of_a_record_that_was_committed_during_the_check(dsn: str) -> None:
    await add_records(dsn, -40)
    await live_through(dsn, 45)
    async with (
        HolderClient(dsn) as late,
        HolderClient(dsn, role="owner") as gate,
        HolderClient(dsn, role=OPERATOR) as dropper,
    ):
        await late.begin()
        await late.connection.execute(RECORDS, day_ahead(-40), 77, 1)
        async with sql_client.session(dsn, "consumer") as member:
            assert await consume_once(member, "g", nothing) == 3
        await gate.begin()
        await gate.connection.execute("lock table shardclock.consumers in access exclusive mode")
        asked = await waits(dropper, drop_log_partition(dropper.session, keep_days=30))
        await late.commit()
        await gate.commit()
        oldest = await ends(asked)

    assert oldest is not None
    assert (oldest.dropped, oldest.kept_for) == (False, "g")
    assert sum((await homes(dsn)).values()) == 4


# A day without its partition


async def test_without_the_partition_of_its_day_a_record_is_in_the_default_partition_until_the_day_is_over(
    each_dsn: str,
) -> None:
    # Given a day without a partition, on which a timer fired
    await lose(each_dsn, *days_ahead(0, 1))
    await add_holder(each_dsn, 1)
    (key,) = await add_timers(each_dsn, 1)
    async with HolderClient(each_dsn, holder=1) as shard, session(each_dsn) as client:
        assert (await shard.take(fire_overdue=True)).fired == 1

        # When the partitions are made later
        made = [await ensure_log_partitions(client) for _ in range(2)]

        # Then the other days' partitions are made, and the record stays in the default partition;
        assert made == [1, 0]
        assert await partitions(each_dsn) == [*days_ahead(1, 7), "default"]
        assert await homes(each_dsn) == {"default": 1}
        assert await read_keys(client) == [key]

        # and after the day, the record is in a separate partition.
        await query(each_dsn, "update shardclock.command_log set recorded_at = recorded_at - interval '1 day'")
        assert await ensure_log_partitions(client) == 2
        assert await partitions(each_dsn) == [*days_ahead(-1, 7), "default"]
        assert await homes(each_dsn) == dict.fromkeys(days_ahead(-1, -1), 1)
        assert await read_keys(client) == [key]
    assert await intents(each_dsn) == {(key, "TRIGGERED"): 1}


async def test_the_records_in_the_default_partition_move_to_a_new_partition_in_the_same_order(each_dsn: str) -> None:
    for ahead in (-1, -3, -2):
        await add_records(each_dsn, ahead, partition=ahead == -3)
    async with session(each_dsn) as reader, session(each_dsn) as maker:
        before = await read_keys(reader)
        assert await homes(each_dsn) == {days_ahead(-3, -3)[0]: 3, "default": 6}

        assert await ensure_log_partitions(maker) == 1

        (oldest,), (latest,) = days_ahead(-3, -3), days_ahead(-1, -1)
        assert await homes(each_dsn) == {oldest: 3, latest: 6}, (
            "named by its last day, or it would be dropped too early"
        )
        assert await read_keys(reader) == before == [1001, 1002, 1003, 3001, 3002, 3003, 2001, 2002, 2003]
        assert await ensure_log_partitions(maker) == 0


async def test_a_new_partition_between_two_days_in_the_default_partition_moves_no_record(each_dsn: str) -> None:
    for ahead in (-1, -3, -2):
        await add_records(each_dsn, ahead, partition=ahead == -2)
    before = await homes(each_dsn)

    async with session(each_dsn) as maker, session(each_dsn) as reader:
        assert await ensure_log_partitions(maker) == 0

        assert await homes(each_dsn) == before
        assert len(await read_keys(reader)) == 9


@pytest.mark.parametrize("known", [False, True], ids=["first_read", "prepared"])
async def test_a_reader_sees_each_record_once_while_records_move_to_their_own_day(
    each_dsn: str, *, known: bool
) -> None:
    await add_records(each_dsn, -1, partition=False)
    async with HolderClient(each_dsn, role=OPERATOR) as maker, HolderClient(each_dsn, role=OPERATOR) as reader:
        # Execute the statement so often that Postgres keeps its plan.
        for _ in range(7 if known else 0):
            await read_keys(reader.session)
        await maker.begin()
        assert await call(maker, "rehome_log_default") == 1
        reading = await waits(reader, read_keys(reader.session))

        await maker.commit()

        assert await ends(reading) == [1001, 1002, 1003]


async def test_a_reader_that_keeps_the_log_open_delays_only_the_move(dsn: str) -> None:
    await lose(dsn, *days_ahead(4, 4))
    await add_records(dsn, -1, partition=False)
    async with HolderClient(dsn, role=OPERATOR) as reader, HolderClient(dsn, role=OPERATOR) as maker:
        await reader.begin()
        await reader.value("select count(*) from shardclock.command_log")

        async with asyncio.timeout(5):
            assert await call(maker, "rehome_log_default") == 0
        assert await homes(dsn) == {"default": 3}
        await reader.commit()

        assert await ensure_log_partitions(maker.session) == 2
    assert await homes(dsn) == dict.fromkeys(days_ahead(-1, -1), 3)
