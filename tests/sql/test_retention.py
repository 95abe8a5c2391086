"""Prove that the log keeps records that a group has not read, and drops its oldest days one by one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import pytest

from shardclock.log import LogRecord
from shardclock.log.async_groups import open_group
from shardclock_server.sql.log.partitions import (
    OldestDay,
    drop_log_partition,
    ensure_log_partitions,
    forget_holders,
    mark_day,
)
from shardclock_server.sql.session import Connection, StatementRefused, StoreUnavailable
from tests.support.consumers import consume_once
from tests.support.factories import HolderClient, add_holder, add_timers, query, value
from tests.support.log_days import add_records, day_ahead, days_ahead, homes, nothing, partitions, read_keys, session
from tests.support.roles import OPERATOR, as_role
from tests.support.sql_client import refusal


async def test_days_are_dropped_one_at_a_time_oldest_first_until_all_others_must_be_kept(each_dsn: str) -> None:
    for ahead in (-2, -5, -4, -3):
        await add_records(each_dsn, ahead)
    async with session(each_dsn) as client:
        assert len(await read_keys(client)) == 12
        assert await drop_log_partition(client, keep_days=5) is None

        dropped = [await drop_log_partition(client, keep_days=2) for _ in range(5)]

        assert dropped == [
            *(OldestDay(day_ahead(ahead), dropped=True, kept_for=None) for ahead in (-5, -4, -3)),
            None,
            None,
        ]
        assert await partitions(each_dsn) == [*days_ahead(-2, -2), *days_ahead(0, 7), "default"]
        assert await read_keys(client) == [2001, 2002, 2003]
        assert await ensure_log_partitions(client) == 0
    assert await value(each_dsn, "select to_regclass($1)", f"shardclock.command_log_{days_ahead(-5, -5)[0]}") is None


async def test_a_day_that_a_group_has_not_read_is_kept_with_all_later_days(each_dsn: str) -> None:
    for ahead in (-5, -4):
        await add_records(each_dsn, ahead)
    async with session(each_dsn) as client:
        # Given one group that has read all records, and two groups that have not read the first day's last record
        while await consume_once(client, "audit", nothing):
            pass
        await consume_once(client, "billing", nothing, limit=2)
        await open_group(client, "new")

        # When the coordinator tries to drop the day, then the day stays each time, for the first such group by name.
        kept = [await drop_log_partition(client, keep_days=1) for _ in range(2)]
        assert kept == [OldestDay(day_ahead(-5), dropped=False, kept_for="billing")] * 2
        await consume_once(client, "billing", nothing)
        kept = [await drop_log_partition(client, keep_days=1)]
        assert kept == [OldestDay(day_ahead(-5), dropped=False, kept_for="new")]
        assert len(await homes(each_dsn)) == 2

        # When the last group has read the day, the coordinator drops the day, and keeps the next day.
        await consume_once(client, "new", nothing, limit=3)
        assert await drop_log_partition(client, keep_days=1) == OldestDay(day_ahead(-5), dropped=True, kept_for=None)
        assert await drop_log_partition(client, keep_days=1) == OldestDay(day_ahead(-4), dropped=False, kept_for="new")

        # No group has lost a record.
        found: list[int] = []

        async def collect(connection: Connection, records: Sequence[LogRecord]) -> None:
            found.extend(record.timer_key for record in records)

        await consume_once(client, "new", collect)
        assert found == [4001, 4002, 4003]
        assert await drop_log_partition(client, keep_days=1) == OldestDay(day_ahead(-4), dropped=True, kept_for=None)


async def test_a_group_at_work_has_not_read_the_day_yet(dsn: str) -> None:
    await add_records(dsn, -5)
    async with session(dsn) as member, session(dsn) as keeper:
        outcomes = []

        async def work(connection: Connection, records: Sequence[LogRecord]) -> None:
            with suppress(StoreUnavailable):
                outcomes.append(await drop_log_partition(keeper, keep_days=1))

        assert await consume_once(member, "g", work) == 3
        assert outcomes == [OldestDay(day_ahead(-5), dropped=False, kept_for="g")]
        outcomes.append(await drop_log_partition(keeper, keep_days=1))

    assert outcomes[1] == OldestDay(day_ahead(-5), dropped=True, kept_for=None)


async def test_an_empty_day_waits_for_no_group(dsn: str) -> None:
    await add_records(dsn, -5, 0)
    async with session(dsn) as client:
        await open_group(client, "new")

        assert await drop_log_partition(client, keep_days=1) == OldestDay(day_ahead(-5), dropped=True, kept_for=None)


async def test_a_day_in_the_default_partition_is_dropped_when_it_has_its_own_partition(dsn: str) -> None:
    await add_records(dsn, -5, partition=False)
    async with session(dsn) as client:
        assert await drop_log_partition(client, keep_days=1) is None
        await ensure_log_partitions(client)

        assert await drop_log_partition(client, keep_days=1) == OldestDay(day_ahead(-5), dropped=True, kept_for=None)
    assert await homes(dsn) == {}


async def test_a_reader_that_keeps_the_log_open_keeps_the_day_and_blocks_writers_only_briefly(dsn: str) -> None:
    await add_records(dsn, -5)
    await add_holder(dsn, 1)
    (key,) = await add_timers(dsn, 1)
    async with (
        HolderClient(dsn, role=OPERATOR) as reader,
        HolderClient(dsn, role=OPERATOR) as keeper,
        HolderClient(dsn, holder=1) as shard,
    ):
        held = (await shard.take()).claimed
        await reader.begin()
        await reader.value("select count(*) from shardclock.command_log")

        async with asyncio.timeout(5):
            dropping = asyncio.create_task(drop_log_partition(keeper.session, keep_days=1))
            assert (await shard.fire(held)).timer_keys == {key}
            with pytest.raises(StoreUnavailable, match=f"could not obtain lock on relation .*{days_ahead(-5, -5)[0]}"):
                await dropping

        assert await partitions(dsn) == [*days_ahead(-5, -5), *days_ahead(0, 7), "default"]
        assert len(await read_keys(shard.session)) == 4
        await reader.commit()
        assert await drop_log_partition(keeper.session, keep_days=1) == OldestDay(
            day_ahead(-5), dropped=True, kept_for=None
        )


@pytest.mark.parametrize("jump", [2, 9, 40, 400])
async def test_a_clock_that_jumps_forward_drops_no_day_that_would_have_stayed(dsn: str, jump: int) -> None:
    """Move all records and counted days into the past, in place of moving the clock forward."""
    for ago in (30, 29, 1, 0):
        await add_records(dsn, -ago - jump, 1)
    async with session(dsn) as client:
        await query(as_role(dsn, "owner"), "delete from shardclock.log_days where day > $1", day_ahead(-jump))
        await mark_day(client)

        assert [await drop_log_partition(client, keep_days=30) for _ in range(2)] == [None, None]

        # The retention counts days exactly, so the first day is dropped after one more day.
        assert await drop_log_partition(client, keep_days=29) == OldestDay(
            day_ahead(-30 - jump), dropped=True, kept_for=None
        )
        assert await drop_log_partition(client, keep_days=29) is None


async def test_days_without_a_leader_do_not_count(dsn: str) -> None:
    await add_records(dsn, -9)
    await query(
        as_role(dsn, "owner"),
        "delete from shardclock.log_days where day between $1 and $2",
        day_ahead(-5),
        day_ahead(-3),
    )
    async with session(dsn) as client:
        assert await drop_log_partition(client, keep_days=6) is None
        assert await drop_log_partition(client, keep_days=5) is None
        assert await drop_log_partition(client, keep_days=4) is not None
        assert await value(dsn, "select min(day) from shardclock.log_days") == day_ahead(-8)


async def test_at_least_one_day_is_kept(dsn: str) -> None:
    async with HolderClient(dsn, role=OPERATOR) as client:
        for given, shown in (("0", "0"), ("-1", "-1"), ("null", "<NULL>")):
            sentence = f"keep_days {shown} is refused: keep at least 1 day"
            assert await refusal(client, "drop_log_partition", keep_days=given) == sentence
        with pytest.raises(StatementRefused, match="keep at least 1 day"):
            await drop_log_partition(client.session, keep_days=0)


async def test_only_holders_that_ended_long_ago_are_deleted(dsn: str) -> None:
    for holder, ended in (
        (1, "null"),
        (2, "now()"),
        (3, "now() - interval '29 days'"),
        (4, "now() - interval '31 days'"),
    ):
        await add_holder(dsn, holder)
        await query(
            dsn, f"update shardclock.holders set started_at = now() - interval '1 year', ended_at = {ended}, "
            f"ended_why = case when {ended} is null then null else 'gone' end where holder = $1", holder,
        )  # fmt: skip

    async with session(dsn) as client:
        for _ in range(2):
            await forget_holders(client, keep_days=30)

    assert [row[0] for row in await query(dsn, "select holder from shardclock.holders order by 1")] == [1, 2, 3]
