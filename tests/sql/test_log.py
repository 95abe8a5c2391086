"""Prove that every reader of the command log sees each record once, in order, without gaps."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import fields

import asyncpg
import pytest

from shardclock.log import LogRecord
from shardclock.log.async_reading import log_end, read_log
from shardclock_server.sql.log.records import follow
from shardclock_server.sql.session import Connection
from tests.support.consumers import consume, consume_once
from tests.support.consumers import member_session as session
from tests.support.factories import add_timers, query, value
from tests.support.roles import as_role
from tests.support.statement_headers import Header
from tests.support.waiting import eventually

Places = list[int]


async def append(dsn: str, count: int) -> None:
    """End timers, each in a separate transaction."""
    for key in await add_timers(dsn, count):
        await query(dsn, "select shardclock.cancel_timer($1)", key)


def collect(into: Places) -> Callable[[Connection, Sequence[LogRecord]], Awaitable[None]]:
    """Return a consumer's function that adds the position of each received record to `into`."""

    async def work(connection: Connection, records: Sequence[LogRecord]) -> None:
        into.extend(record.position for record in records)

    return work


async def in_order(dsn: str) -> Places:
    return [
        row["position"] for row in await query(dsn, "select position from shardclock.command_log order by position")
    ]


def test_a_record_has_the_columns_of_a_row_in_their_order() -> None:
    columns = [name for name, _ in Header.of("records_at").columns]

    assert columns == [field.name for field in fields(LogRecord)]


async def test_a_reader_continues_from_its_position_with_at_most_the_limit_of_records(dsn: str) -> None:
    await append(dsn, 7)
    found: Places = []
    async with session(dsn) as reader:
        while records := await read_log(reader, found[-1] if found else 0, limit=3):
            assert len(records) <= 3
            found += [record.position for record in records]

    assert found == await in_order(dsn)


@pytest.mark.shared_database
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("page_size => -1", "page_size -1 is refused: use 0 or more"),
        ("partitions => 0", "partition 0 of 0 is refused: use 1 to 840 partitions, and number them from 0"),
        ("partitions => 3, partition => 3", "partition 3 of 3 is refused"),
        ("partitions => 3, partition => -1", "partition -1 of 3 is refused"),
        ("partitions => 841", "partition 0 of 841 is refused"),
        ("partitions => null", "partition 0 of <NULL> is refused"),
    ],
)
async def test_an_unreadable_page_or_partition_is_refused_instead_of_returned_empty(
    dsn: str, arguments: str, sentence: str
) -> None:
    with pytest.raises(asyncpg.InvalidParameterValueError, match=sentence):
        await query(dsn, f"select shardclock.read_log({arguments})")


async def test_the_logs_end_is_after_all_readable_records_and_before_all_later_records(dsn: str) -> None:
    await append(dsn, 3)
    async with session(dsn) as reader:
        end = await log_end(reader)
        assert await read_log(reader, end) == []
        await append(dsn, 1)
        assert len(await read_log(reader, end)) == 1


async def test_a_follower_gets_new_records_and_otherwise_empty_batches(dsn: str) -> None:
    await append(dsn, 1)
    async with session(dsn) as reader:
        following = follow(reader, 0)
        sizes = [len(await anext(following)), len(await anext(following))]
        await append(dsn, 2)
        sizes.append(len(await anext(following)))

    assert sizes == [1, 0, 2]


async def test_a_group_does_its_work_once_for_each_record(each_dsn: str) -> None:
    await append(each_dsn, 5)
    found: Places = []
    async with session(each_dsn) as member:
        counts = [await consume_once(member, "g", collect(found), limit=2) for _ in range(4)]

    assert counts == [2, 2, 1, 0]
    assert found == await in_order(each_dsn)


async def test_groups_are_independent(dsn: str) -> None:
    await append(dsn, 2)
    one: Places = []
    two: Places = []
    async with session(dsn) as member:
        await consume_once(member, "one", collect(one))
        await append(dsn, 1)
        await consume_once(member, "two", collect(two))
        await consume_once(member, "one", collect(one))

    assert one == two == await in_order(dsn)


async def test_while_one_member_of_a_group_works_the_other_members_wait(dsn: str) -> None:
    await append(dsn, 3)
    found: Places = []
    async with session(dsn) as busy, session(dsn) as idle:

        async def work(connection: Connection, records: Sequence[LogRecord]) -> None:
            assert await consume_once(idle, "g", collect(found)) == 0
            assert await consume_once(idle, "other", collect(found), limit=1) == 1

        assert await consume_once(busy, "g", work) == 3

    assert len(found) == 1


async def test_work_that_raises_is_rolled_back_and_its_exception_is_raised_unchanged(dsn: str) -> None:
    await append(dsn, 2)
    await query(dsn, "create table done (position bigint)")
    await query(dsn, "grant insert on done to test_consumer")
    await query(dsn, "grant insert on done to test_consumer")
    root = KeyError("root")
    raised = ValueError("no")

    async def fail(connection: Connection, records: Sequence[LogRecord]) -> None:
        await connection.execute("insert into public.done values (1)")
        raise raised from root

    found: Places = []
    async with session(dsn) as member:
        with pytest.raises(ValueError, match="no") as failure:
            await consume_once(member, "g", fail)
        assert await consume_once(member, "g", collect(found)) == 2

    assert failure.value is raised
    assert failure.value.__cause__ is root
    assert await value(dsn, "select count(*) from done") == 0
    assert found == await in_order(dsn)


async def test_work_whose_own_statement_is_refused_gets_that_exception(dsn: str) -> None:
    await append(dsn, 1)

    async def divide(connection: Connection, records: Sequence[LogRecord]) -> None:
        await connection.execute("select 1 / 0")

    async with session(dsn) as member:
        with pytest.raises(asyncpg.DivisionByZeroError):
            await consume_once(member, "g", divide)


async def test_a_consumer_works_until_it_is_cancelled_and_waits_during_an_outage(dsn: str) -> None:
    found: Places = []
    consumer = asyncio.create_task(consume(as_role(dsn, "consumer"), "g", collect(found)))
    await append(dsn, 3)
    # A kill before the commit of the group's position would let the consumer read the records again.
    await eventually(lambda: has_read_all(dsn))
    kill = (
        "select pg_terminate_backend(pid, 10000) from pg_stat_activity where application_name = 'shardclock consumer g'"
    )
    await query(dsn, kill)
    await append(dsn, 2)
    await eventually(lambda: has_read_all(dsn))

    consumer.cancel()
    with pytest.raises(asyncio.CancelledError):
        await consumer

    assert found == await in_order(dsn)


async def has_read_all(dsn: str) -> bool:
    """Return whether the position of the group g has reached the log's last record."""
    read = "position >= (select max(position) from shardclock.command_log)"
    return bool(await value(dsn, f"select exists (select from shardclock.consumers where group_name = 'g' and {read})"))
