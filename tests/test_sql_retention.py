"""Prove that the log always has a place for its records, keeps what somebody has yet to read, and lets the rest go."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta

import pytest

from sql.log import Cursor, LogRecord, consume_once, read_log
from sql.partitions import OldestDay, drop_log_partition, ensure_log_partitions, forget_holders
from sql.session import Connection, Session, StatementRefused, StoreUnavailable
from tests.asking import call, refusal, session
from tests.store import Hand, add_holder, add_timers, ends, intents, query, value, waits

RECORDS = """
    insert into shardclock.command_log (
        recorded_at, timer_key, due_date, created_at, occurrence, intent, tenant_id, timer_type, target
    )
    select $1::date::timestamp at time zone 'UTC' + i * interval '1 minute', $2 * 1000 + i, now(), now(), 1,
        'TRIGGERED', 'default', 'USER', 'log'
    from generate_series(1, $3) i
"""


def day(ahead: int) -> date:
    """Name a day by how far ahead it is."""
    return datetime.now(UTC).date() + timedelta(days=ahead)


def days(first: int, last: int) -> list[str]:
    """Name the partitions of days from one to another."""
    return [day(ahead).strftime("%Y%m%d") for ahead in range(first, last + 1)]


async def partitions(dsn: str) -> list[str]:
    """List the log's partitions."""
    text = "select inhrelid::regclass::text from pg_inherits where inhparent = 'shardclock.command_log'::regclass"
    return sorted(row[0].removeprefix("shardclock.command_log_") for row in await query(dsn, text))


async def homes(dsn: str) -> dict[str, int]:
    """Count the records in each partition that has any."""
    text = "select tableoid::regclass::text, count(*) from shardclock.command_log group by 1 order by 1"
    return {row[0].removeprefix("shardclock.command_log_"): row[1] for row in await query(dsn, text)}


async def records(dsn: str, ahead: int, count: int = 3, *, partition: bool = True) -> None:
    """Write down what happened on a past day, into its own partition or where the log finds room."""
    if partition:
        text = f"create table shardclock.command_log_{days(ahead, ahead)[0]} partition of shardclock.command_log"
        await query(dsn, f"{text} for values from ('{day(ahead)} 00:00+00') to ('{day(ahead + 1)} 00:00+00')")
    await query(dsn, RECORDS, day(ahead), -ahead, count)


async def lose(dsn: str, *names: str) -> None:
    """Drop days' partitions."""
    for name in names:
        await query(dsn, f"drop table shardclock.command_log_{name}")


async def read(reader: Session) -> list[int]:
    """Read the whole log: the timers' keys, in its order."""
    return [record.timer_key for record in await read_log(reader, Cursor())]


async def nothing(connection: Connection, records: Sequence[LogRecord]) -> None:
    """Work on records by having read them."""


# Made ahead


async def test_today_and_the_week_ahead_have_partitions_and_making_them_again_makes_none(each_dsn: str) -> None:
    expected = [*days(0, 7), "default"]
    assert await partitions(each_dsn) == expected

    async with session(each_dsn) as client:
        assert await ensure_log_partitions(client) == 0

    assert await partitions(each_dsn) == expected


async def test_missing_partitions_are_made_once_by_many_at_a_time(each_dsn: str) -> None:
    await lose(each_dsn, *days(3, 5))
    await records(each_dsn, -1, partition=False)
    clients = [session(each_dsn) for _ in range(4)]

    made = await asyncio.gather(*(ensure_log_partitions(client) for client in clients))

    assert sorted(made) == [0, 0, 0, 4]
    assert await partitions(each_dsn) == [*days(-1, 7), "default"]
    for client in clients:
        await client.close()


async def test_a_new_partition_is_like_the_log_in_columns_and_indexes(dsn: str) -> None:
    shape = """
        select array_agg(attname || ' ' || atttypid::regtype || attnotnull || coalesce(pg_get_expr(adbin, adrelid), '')
            order by attnum), (select count(*) from pg_index where indrelid = attrelid)
        from pg_attribute left join pg_attrdef on adrelid = attrelid and adnum = attnum
        where attnum > 0 and attrelid = any ($1::text[]::regclass[])
        group by attrelid"""
    await lose(dsn, *days(2, 2))
    await records(dsn, -1, partition=False)
    async with session(dsn) as client:
        await ensure_log_partitions(client)

    made = [f"shardclock.command_log_{name}" for name in (*days(2, 2), *days(-1, -1))]
    rows = await query(dsn, shape, ["shardclock.command_log", *made])

    assert len(rows) == 3
    assert rows[0] == rows[1] == rows[2]


async def test_a_record_lies_in_the_partition_of_its_day(each_dsn: str) -> None:
    (key,) = await add_timers(each_dsn, 1)
    await query(each_dsn, "select shardclock.cancel_timer($1)", key)

    at = await value(each_dsn, "select to_char(recorded_at at time zone 'UTC', 'YYYYMMDD') from shardclock.command_log")
    assert await homes(each_dsn) == {at: 1}


async def test_making_partitions_holds_up_no_firing_even_while_it_waits_for_a_reader(dsn: str) -> None:
    await lose(dsn, *days(7, 7))
    await add_holder(dsn, 1)
    (key,) = await add_timers(dsn, 1)
    async with Hand(dsn) as reader, Hand(dsn) as maker, Hand(dsn, holder=1) as shard:
        await reader.begin()
        await reader.value("select count(*) from shardclock.command_log")
        making = await waits(maker, ensure_log_partitions(maker.session))

        held = (await shard.take()).claimed
        assert (await shard.fire(held)).timer_keys == {key}

        await reader.commit()
        assert await ends(making) == 1


# A day without its partition


async def test_without_its_day_s_partition_a_record_lies_in_the_default_until_the_day_is_over(each_dsn: str) -> None:
    # Given a day without its partition, on which a timer fired
    await lose(each_dsn, *days(0, 1))
    await add_holder(each_dsn, 1)
    (key,) = await add_timers(each_dsn, 1)
    async with Hand(each_dsn, holder=1) as shard, session(each_dsn) as client:
        assert (await shard.take(fuse=True)).fired == 1

        # When the partitions are made after all
        made = [await ensure_log_partitions(client) for _ in range(2)]

        # Then the others are made, and the record is where it was;
        assert made == [1, 0]
        assert await partitions(each_dsn) == [*days(1, 7), "default"]
        assert await homes(each_dsn) == {"default": 1}
        assert await read(client) == [key]

        # and when the day is over, it gets its own.
        await shard.value("update shardclock.command_log set recorded_at = recorded_at - interval '1 day' returning 1")
        assert await ensure_log_partitions(client) == 2
        assert await partitions(each_dsn) == [*days(-1, 7), "default"]
        assert await homes(each_dsn) == dict.fromkeys(days(-1, -1), 1)
        assert await read(client) == [key]
    assert await intents(each_dsn) == {(key, "TRIGGERED"): 1}


async def test_the_days_that_the_default_took_in_become_a_partition_and_the_order_stays(each_dsn: str) -> None:
    for ahead in (-1, -3, -2):
        await records(each_dsn, ahead, partition=ahead == -3)
    async with session(each_dsn) as reader, session(each_dsn) as maker:
        before = await read(reader)
        assert await homes(each_dsn) == {days(-3, -3)[0]: 3, "default": 6}

        assert await ensure_log_partitions(maker) == 1

        (oldest,), (latest,) = days(-3, -3), days(-1, -1)
        assert await homes(each_dsn) == {oldest: 3, latest: 6}, (
            "named by its last day, or it would be dropped too early"
        )
        assert await read(reader) == before == [1001, 1002, 1003, 3001, 3002, 3003, 2001, 2002, 2003]
        assert await ensure_log_partitions(maker) == 0


async def test_a_day_of_its_own_between_two_that_the_default_took_in_leaves_all_where_they_are(each_dsn: str) -> None:
    for ahead in (-1, -3, -2):
        await records(each_dsn, ahead, partition=ahead == -2)
    before = await homes(each_dsn)

    async with session(each_dsn) as maker, session(each_dsn) as reader:
        assert await ensure_log_partitions(maker) == 0

        assert await homes(each_dsn) == before
        assert len(await read(reader)) == 9


@pytest.mark.parametrize("known", [False, True], ids=["first_read", "prepared"])
async def test_whoever_reads_while_records_get_their_own_day_sees_each_once(each_dsn: str, *, known: bool) -> None:
    await records(each_dsn, -1, partition=False)
    async with Hand(each_dsn) as maker, Hand(each_dsn) as reader:
        # Often enough for its plan to be kept.
        for _ in range(7 if known else 0):
            await read(reader.session)
        await maker.begin()
        assert await call(maker, "rehome_log_default") == 1
        reading = await waits(reader, read(reader.session))

        await maker.commit()

        assert await ends(reading) == [1001, 1002, 1003]


async def test_a_reader_that_keeps_the_log_open_postpones_the_move_and_nothing_else(dsn: str) -> None:
    await lose(dsn, *days(4, 4))
    await records(dsn, -1, partition=False)
    async with Hand(dsn) as reader, Hand(dsn) as maker:
        await reader.begin()
        await reader.value("select count(*) from shardclock.command_log")

        async with asyncio.timeout(5):
            assert await call(maker, "rehome_log_default") == 0
        assert await homes(dsn) == {"default": 3}
        await reader.commit()

        assert await ensure_log_partitions(maker.session) == 2
    assert await homes(dsn) == dict.fromkeys(days(-1, -1), 3)


# Dropped behind


async def test_the_oldest_day_goes_first_one_at_a_time_until_all_that_is_left_is_kept(each_dsn: str) -> None:
    for ahead in (-2, -5, -4, -3):
        await records(each_dsn, ahead)
    async with session(each_dsn) as client:
        assert len(await read(client)) == 12
        assert await drop_log_partition(client, keep_days=5) is None

        dropped = [await drop_log_partition(client, keep_days=2) for _ in range(5)]

        assert dropped == [*(OldestDay(day(ahead), dropped=True, kept_for=None) for ahead in (-5, -4, -3)), None, None]
        assert await partitions(each_dsn) == [*days(-2, -2), *days(0, 7), "default"]
        assert await read(client) == [2001, 2002, 2003]
        assert await ensure_log_partitions(client) == 0
    assert await value(each_dsn, "select to_regclass($1)", f"shardclock.command_log_{days(-5, -5)[0]}") is None


async def test_a_day_that_a_group_has_yet_to_read_stays_and_so_do_all_after_it(each_dsn: str) -> None:
    for ahead in (-5, -4):
        await records(each_dsn, ahead)
    async with session(each_dsn) as client:
        # Given one group that has read all, and two that have not read the first day's last record
        while await consume_once(client, "audit", nothing):
            pass
        await consume_once(client, "billing", nothing, limit=2)
        await client.rows("open_group", "new")

        # When the day is to be dropped, then it stays for the first by name, as often as it is tried.
        kept = [await drop_log_partition(client, keep_days=1) for _ in range(2)]
        assert kept == [OldestDay(day(-5), dropped=False, kept_for="billing")] * 2
        await consume_once(client, "billing", nothing)
        kept = [await drop_log_partition(client, keep_days=1)]
        assert kept == [OldestDay(day(-5), dropped=False, kept_for="new")]
        assert len(await homes(each_dsn)) == 2

        # And when the last one has read it, it goes, and the next one stays.
        await consume_once(client, "new", nothing, limit=3)
        assert await drop_log_partition(client, keep_days=1) == OldestDay(day(-5), dropped=True, kept_for=None)
        assert await drop_log_partition(client, keep_days=1) == OldestDay(day(-4), dropped=False, kept_for="new")

        # Nobody has lost a record.
        found: list[int] = []

        async def collect(connection: Connection, records: Sequence[LogRecord]) -> None:
            found.extend(record.timer_key for record in records)

        await consume_once(client, "new", collect)
        assert found == [4001, 4002, 4003]
        assert await drop_log_partition(client, keep_days=1) == OldestDay(day(-4), dropped=True, kept_for=None)


async def test_a_group_whose_work_is_under_way_has_not_read_yet(dsn: str) -> None:
    await records(dsn, -5)
    async with session(dsn) as member, session(dsn) as keeper:
        outcomes = []

        async def work(connection: Connection, records: Sequence[LogRecord]) -> None:
            with suppress(StoreUnavailable):
                outcomes.append(await drop_log_partition(keeper, keep_days=1))

        assert await consume_once(member, "g", work) == 3
        assert outcomes == [OldestDay(day(-5), dropped=False, kept_for="g")]
        outcomes.append(await drop_log_partition(keeper, keep_days=1))

    assert outcomes[1] == OldestDay(day(-5), dropped=True, kept_for=None)


async def test_an_empty_day_waits_for_nobody(dsn: str) -> None:
    await records(dsn, -5, 0)
    async with session(dsn) as client:
        await client.rows("open_group", "new")

        assert await drop_log_partition(client, keep_days=1) == OldestDay(day(-5), dropped=True, kept_for=None)


async def test_a_day_that_the_default_took_in_goes_when_it_has_its_own(dsn: str) -> None:
    await records(dsn, -5, partition=False)
    async with session(dsn) as client:
        assert await drop_log_partition(client, keep_days=1) is None
        await ensure_log_partitions(client)

        assert await drop_log_partition(client, keep_days=1) == OldestDay(day(-5), dropped=True, kept_for=None)
    assert await homes(dsn) == {}


async def test_a_reader_that_keeps_the_log_open_keeps_the_day_and_no_writer_waits_long_for_that(dsn: str) -> None:
    await records(dsn, -5)
    await add_holder(dsn, 1)
    (key,) = await add_timers(dsn, 1)
    async with Hand(dsn) as reader, Hand(dsn) as keeper, Hand(dsn, holder=1) as shard:
        held = (await shard.take()).claimed
        await reader.begin()
        await reader.value("select count(*) from shardclock.command_log")

        async with asyncio.timeout(5):
            dropping = asyncio.create_task(drop_log_partition(keeper.session, keep_days=1))
            assert (await shard.fire(held)).timer_keys == {key}
            with pytest.raises(StoreUnavailable, match="lock timeout"):
                await dropping

        assert await partitions(dsn) == [*days(-5, -5), *days(0, 7), "default"]
        assert len(await read(shard.session)) == 4
        await reader.commit()
        assert await drop_log_partition(keeper.session, keep_days=1) == OldestDay(day(-5), dropped=True, kept_for=None)


async def test_how_many_days_to_keep_is_at_least_one(dsn: str) -> None:
    async with Hand(dsn) as client:
        for given, shown in (("0", "0"), ("-1", "-1"), ("null", "<NULL>")):
            sentence = f"keep_days {shown} is not possible: keep at least 1 day"
            assert await refusal(client, "drop_log_partition", keep_days=given) == sentence
        with pytest.raises(StatementRefused, match="keep at least 1 day"):
            await drop_log_partition(client.session, keep_days=0)


async def test_holders_that_ended_long_ago_are_forgotten_and_no_others(dsn: str) -> None:
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
