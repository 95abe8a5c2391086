"""Test that a member continues after any fault of its work, and logs and counts the fault."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import asyncpg
import pytest

from shardclock.log import AsyncBatch as Batch
from shardclock.log import LogRecord, async_consuming, async_leasing
from shardclock.log.partition import PartitionState
from shardclock_server.sql.session import Connection
from tests.support.consumers import append, capture_logs, consume, consume_leased, consuming, group_of, until
from tests.support.factories import query
from tests.support.roles import as_role
from tests.support.waiting import eventually

REFUSE = """
create function refuse() returns trigger language plpgsql as $$
begin
    if new.error ~ 'é' then
        raise exception using errcode = '22P05';
    end if;
    return new;
end
$$
"""

# Errors of the work


class Unsayable(Exception):
    """An error without a readable text."""

    def __str__(self) -> str:
        """Fail."""
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("way", "error", "told"),
    [
        ("in a transaction", ValueError("a \x00 b"), r"ValueError: a \x00 b"),
        ("in a transaction", ValueError("a \udcff b"), r"ValueError: a \udcff b"),
        ("in a transaction", Unsayable(), "Unsayable: (its text can't be read: RuntimeError)"),
        ("under a lease", ValueError("a \x00 \udcff é"), r"ValueError: a \x00 \udcff é"),
    ],
    ids=["a NUL", "half a surrogate pair", "no text", "all under a lease"],
)
async def test_an_error_with_any_text_is_counted(dsn: str, way: str, error: Exception, told: str) -> None:
    await append(dsn, 1, 2)
    seen: list[int] = []

    async def work(_: object, records: Sequence[LogRecord]) -> None:
        if records[0].timer_key == 1:
            raise error
        seen.extend(record.timer_key for record in records)

    async def work_leased(batch: Batch) -> None:
        await work(None, batch.records)

    consumer = as_role(dsn, "consumer")
    member = (
        consume(consumer, "g", work, attempts=2)
        if way == "in a transaction"
        else consume_leased(consumer, "g", work_leased, attempts=2)
    )
    with capture_logs() as logs:
        async with consuming(member) as tasks:
            await until(lambda: seen == [2], *tasks)
    group = await group_of(dsn)
    assert (group.set_aside, group.error) == (1, told)
    assert [line["error"] for line in logs if line["event"] == "work failed"] == [told]


async def test_an_error_text_that_the_database_can_not_encode_is_stored_as_ascii(dsn: str) -> None:
    """A trigger refuses the error's text, as a database with another encoding than UTF-8 would."""
    await query(dsn, REFUSE)
    await query(
        dsn, "create trigger refuse before update on shardclock.consumers for each row execute function refuse()"
    )
    await append(dsn, 1)

    async def work(*_: object) -> None:
        raise ValueError("é")

    with capture_logs() as logs:
        async with consuming(consume(as_role(dsn, "consumer"), "g", work)) as tasks:
            await until(lambda: any(line["event"] == "work failed" for line in logs), *tasks)

    assert (await group_of(dsn)).error == r"ValueError: \xe9"


# The duration of the work


@pytest.mark.slow
async def test_blocking_work_that_exceeds_its_session_timeout_is_counted_and_retried_one_record_at_a_time(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shardclock.log.async_consuming.WORK_S", 0.4)
    monkeypatch.setattr("shardclock.log.async_member.WORK_S", 0.4)  # so the session's timeout is 0.6 s
    await append(dsn, *range(1, 23))
    tries: list[int] = []

    async def blocking(_: Connection, records: Sequence[LogRecord]) -> None:
        tries.append(len(records))
        if records[-1].timer_key > 5:
            time.sleep(1.0)  # noqa: ASYNC251 - it blocks the event loop

    with capture_logs() as logs:
        async with consuming(consume(as_role(dsn, "consumer"), "g", blocking, attempts=2)) as tasks:
            await until(lambda: any(line["event"] == "record set aside" for line in logs), *tasks)

    assert tries[:5] == [1, 4, 16, 1, 1], "after a timeout the next batch has one record"
    group = await group_of(dsn)
    assert (group.failures, group.set_aside) == (3, 1)
    assert "took longer than the limit of a transaction, 0.4 s" in str(group.error)
    assert "asyncio.to_thread" in str(group.error)
    assert "lease" in str(group.error)
    assert not [line for line in logs if line["event"] == "Postgres does not answer"]


async def test_blocking_work_that_exceeds_its_timeout_is_rolled_back_although_its_session_lives(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shardclock.log.async_consuming.WORK_S", 0.1)
    await append(dsn, 1)

    async def blocking(*_: object) -> None:
        time.sleep(0.2)  # noqa: ASYNC251 - it blocks the event loop

    with capture_logs() as logs:
        async with consuming(consume(as_role(dsn, "consumer"), "g", blocking)) as tasks:
            await until(lambda: any(line["event"] == "work failed" for line in logs), *tasks)

    assert (await group_of(dsn)).position == 0


# The connection of the work


@pytest.mark.parametrize("hides", [False, True], ids=["as it is", "the work hides it"])
async def test_work_that_loses_its_connection_is_counted_and_its_record_set_aside(dsn: str, hides: bool) -> None:
    await append(dsn, 1, 2, 3)
    seen: list[int] = []

    async def work(connection: Connection, records: Sequence[LogRecord]) -> None:
        keys = [record.timer_key for record in records]
        if 2 in keys:
            with suppress(*([asyncpg.PostgresError] if hides else [])):
                # This simulates a server that kills its own process because of this record.
                await connection.execute("select pg_terminate_backend(pg_backend_pid())")
        else:
            seen.extend(keys)

    with capture_logs() as logs:
        async with consuming(consume(as_role(dsn, "consumer"), "g", work, attempts=2)) as tasks:
            await until(lambda: 3 in seen, *tasks)

    group = await group_of(dsn)
    assert (seen, group.set_aside) == ([1, 3], 1)
    assert "lost its connection" in str(group.error)
    assert not [line for line in logs if line["event"] == "Postgres does not answer"]


async def test_a_restart_of_postgres_during_the_work_is_not_counted_as_an_attempt(dsn: str) -> None:
    await append(dsn, 1)
    tries: list[int] = []
    # The member's search path finds this function: it reports a new start of the server at each call.
    await query(dsn, "create schema restarted")
    await query(dsn, "grant usage on schema restarted to public")
    await query(dsn, "create function restarted.pg_postmaster_start_time() returns timestamptz language sql"
                " as 'select clock_timestamp()'")  # fmt: skip
    await query(
        dsn, f"alter database {dsn.partition('@/')[2].partition('?')[0]} set search_path = restarted, pg_catalog"
    )

    async def work(connection: Connection, records: Sequence[LogRecord]) -> None:
        tries.append(len(records))
        if len(tries) == 1:
            await connection.execute("select pg_terminate_backend(pg_backend_pid())")

    with capture_logs() as logs:
        async with consuming(consume(as_role(dsn, "consumer"), "g", work)) as tasks:
            await until(lambda: len(tries) == 2, *tasks)

    assert (await group_of(dsn)).failures == 0
    assert [line["event"] for line in logs][:1] == ["Postgres does not answer"]


# Work that cancels its task or ends its transaction


@pytest.mark.parametrize("way", ["in a transaction", "under a lease"])
async def test_a_cancelled_task_within_the_work_counts_as_a_failure(dsn: str, way: str) -> None:
    await append(dsn, 1)

    async def work(*_: object) -> None:
        own = asyncio.ensure_future(asyncio.Event().wait())
        asyncio.get_running_loop().call_soon(own.cancel)
        await own

    consumer = as_role(dsn, "consumer")
    member = consume(consumer, "g", work) if way == "in a transaction" else consume_leased(consumer, "g", work)
    with capture_logs() as logs:
        async with consuming(member) as tasks:
            await until(lambda: any(line["event"] == "work failed" for line in logs), *tasks)

    assert (await group_of(dsn)).failures >= 1
    assert "without a request to stop" in str((await group_of(dsn)).error)


@pytest.mark.parametrize("ends", ["commit", "rollback", "commit; begin"])
async def test_work_that_ends_its_transaction_fails_with_a_clear_error(dsn: str, ends: str) -> None:
    await append(dsn, 1)

    async def work(connection: Connection, _: object) -> None:
        await connection.execute(ends)

    with capture_logs() as logs:
        async with consuming(consume(as_role(dsn, "consumer"), "g", work)) as tasks:
            await until(lambda: any(line["event"] == "work failed" for line in logs), *tasks)

    group = await group_of(dsn)
    assert group.position == 0
    assert "ended the consumer's transaction" in str(group.error)


async def test_work_may_use_savepoints(dsn: str) -> None:
    (position,) = await append(dsn, 1)

    async def work(connection: Connection, _: object) -> None:
        async with connection.transaction():
            await connection.execute("select 1")
        with suppress(asyncpg.PostgresError):
            async with connection.transaction():
                await connection.execute("select 1 / 0")

    async with consuming(consume(as_role(dsn, "consumer"), "g", work)):
        await eventually(lambda: _is_at(dsn, position))


async def _is_at(dsn: str, position: int) -> bool:
    return bool(await query(dsn, "select from shardclock.consumers where position = $1", position))


@pytest.mark.parametrize("way", ["in a transaction", "under a lease"])
async def test_after_a_timeout_of_a_read_the_batch_becomes_smaller(
    dsn: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = async_consuming if way == "in a transaction" else async_leasing
    read = module.read_partition

    async def limited(driver: Any, place: PartitionState, limit: int) -> list[LogRecord]:
        if limit > 1:
            raise asyncpg.QueryCanceledError("canceling statement due to statement timeout")
        records: list[LogRecord] = await read(driver, place, limit)
        return records

    done: list[int] = []

    async def work(connection: Connection, records: Sequence[LogRecord]) -> None:
        done.extend(record.timer_key for record in records)

    async def work_leased(batch: Batch) -> None:
        done.extend(record.timer_key for record in batch.records)

    monkeypatch.setattr(module, "read_partition", limited)
    await append(dsn, 1, 2, 3)
    consumer = as_role(dsn, "consumer")
    member = consume(consumer, "g", work) if way == "in a transaction" else consume_leased(consumer, "g", work_leased)
    async with consuming(member) as tasks:
        await until(lambda: len(done) == 3, *tasks)

    assert done == [1, 2, 3]
