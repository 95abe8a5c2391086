"""Test a group's work on the connections and sessions of users, with and without an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple

import asyncpg
import psycopg
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from shardclock.log import LogRecord, consume, consume_leased, consume_once, log_end, read_log
from tests.support.consumers import append, capture_logs, group_of
from tests.support.factories import BOUND_S, query
from tests.support.roles import as_role
from tests.support.user_connections import settled
from tests.support.waiting import eventually

INSERT = "insert into done values ({})"


class Kind(NamedTuple):
    """One way in which a user's program opens a connection and writes to the database."""

    name: str
    is_awaited: bool
    connect: Callable[[], Any]
    run: Callable[[Any, str], Any]
    commits_each: bool = False

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Any]:
        """Open a connection for a block."""
        connection = await settled(self.connect())
        try:
            yield connection
        finally:
            await settled(connection.close())


def _text(connection: Any, statement: str) -> Any:
    return connection.execute(sqlalchemy.text(statement))


def _plain(connection: Any, statement: str) -> Any:
    return connection.execute(statement)


def kinds_of(dsn: str) -> dict[str, Kind]:
    """List all kinds of connections, by name."""
    plain = sqlalchemy.create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(dsn), poolclass=NullPool)
    over_psycopg = create_async_engine(
        "postgresql+psycopg://", async_creator=lambda: psycopg.AsyncConnection.connect(dsn), poolclass=NullPool
    )
    over_asyncpg = create_async_engine(
        "postgresql+asyncpg://", async_creator=lambda: asyncpg.connect(dsn), poolclass=NullPool
    )
    kinds = (
        Kind("asyncpg", True, lambda: asyncpg.connect(dsn, timeout=BOUND_S), _plain, commits_each=True),
        Kind("psycopg_async", True, lambda: psycopg.AsyncConnection.connect(dsn), _plain),
        Kind("psycopg_plain", False, lambda: psycopg.connect(dsn), _plain),
        Kind("sqlalchemy_connection", False, plain.connect, _text),
        Kind("sqlalchemy_session", False, lambda: Session(plain), _text),
        Kind("sqlalchemy_async_connection", True, over_psycopg.connect, _text),
        Kind("sqlalchemy_async_session", True, lambda: AsyncSession(over_asyncpg), _text),
    )
    return {kind.name: kind for kind in kinds}


NAMES = (
    "asyncpg", "psycopg_async", "psycopg_plain", "sqlalchemy_connection", "sqlalchemy_session",
    "sqlalchemy_async_connection", "sqlalchemy_async_session",
)  # fmt: skip


@pytest.fixture
async def kinds(dsn: str) -> dict[str, Kind]:
    """Make a table for the work, and list the kinds of connections by their names."""
    await query(dsn, "create table done (key bigint)")
    await query(dsn, "grant select, insert on done to public")
    return kinds_of(as_role(dsn, "consumer"))


@pytest.fixture(params=[name for name in NAMES if "session" not in name])
async def owned(kinds: dict[str, Kind], request: pytest.FixtureRequest) -> Kind:
    """Provide each kind of connection that can belong to a consumer."""
    return kinds[request.param]


@pytest.fixture(params=NAMES)
async def kind(kinds: dict[str, Kind], request: pytest.FixtureRequest) -> Kind:
    """Provide each kind of connection and session."""
    return kinds[request.param]


@asynccontextmanager
async def member(dsn: str, kind: Kind, way: Any, work: Any, **more: Any) -> AsyncIterator[None]:
    """Run a member during a block; without an event loop, the member runs in a thread, and ends at key 0."""

    def stoppable(*given: Any) -> None:
        if any(record.timer_key == 0 for record in getattr(given[-1], "records", given[-1])):
            raise SystemExit
        work(*given)

    def run() -> None:
        with suppress(SystemExit):
            way(kind.connect, "g", stoppable, **more)

    doing = way(kind.connect, "g", work, **more) if kind.is_awaited else asyncio.to_thread(run)
    task = asyncio.create_task(doing)
    try:
        yield
        assert not task.done(), task
    finally:
        if kind.is_awaited:
            task.cancel()
        else:
            await append(dsn, 0)
        async with asyncio.timeout(BOUND_S):
            await asyncio.gather(task, return_exceptions=True)


def work_of(kind: Kind, work: Callable[..., Any]) -> Any:
    """Make a kind's work from a generator of steps; an async kind awaits the steps."""

    async def awaited(*given: Any) -> None:
        for step in work(*given):
            await settled(step)

    def plain(*given: Any) -> None:
        for _ in work(*given):
            pass

    return awaited if kind.is_awaited else plain


async def _is_done(dsn: str) -> bool:
    return not (await group_of(dsn)).lag_records if await query(dsn, "select from shardclock.consumers") else False


async def test_work_writes_once_for_each_record_even_after_an_error(dsn: str, owned: Kind) -> None:
    await append(dsn, *range(1, 31))
    fails = [17]

    def work(connection: Any, records: Sequence[LogRecord]) -> Iterator[Any]:
        for record in records:
            yield owned.run(connection, INSERT.format(record.timer_key))
            if record.timer_key in fails:
                raise ValueError(f"no {fails.pop()}")

    with capture_logs() as logs:
        async with member(dsn, owned, consume, work_of(owned, work)):
            await eventually(lambda: _is_done(dsn))

    assert [row["key"] for row in await query(dsn, "select key from done order by ctid")] == list(range(1, 31))
    assert [line["error"] for line in logs if line["log_level"] == "warning"] == ["ValueError: no 17"]
    assert await query(dsn, "select from pg_stat_activity where application_name like 'shardclock consumer%'") == []


async def test_records_are_leased_acknowledged_and_leased_again_after_an_error(dsn: str, owned: Kind) -> None:
    await append(dsn, *range(1, 11))
    seen: list[int] = []

    def work(batch: Any) -> Iterator[Any]:
        for record in batch.records:
            seen.append(record.timer_key)
            if seen.count(7) == 1 and record.timer_key == 7:
                raise ValueError("no 7")
            yield batch.acknowledge(record)

    with capture_logs():
        async with member(dsn, owned, consume_leased, work_of(owned, work)):
            await eventually(lambda: _is_done(dsn))

    assert seen == [1, 2, 3, 4, 5, 6, 7, 7, 8, 9, 10]


async def test_work_that_closes_its_connection_gets_its_record_set_aside(dsn: str, owned: Kind) -> None:
    await append(dsn, 1, 2, 3)

    def work(connection: Any, records: Sequence[LogRecord]) -> Iterator[Any]:
        for record in records:
            if record.timer_key == 2:
                yield owned.run(connection, "select pg_terminate_backend(pg_backend_pid())")
            yield owned.run(connection, INSERT.format(record.timer_key))

    with capture_logs() as logs:
        async with member(dsn, owned, consume, work_of(owned, work), attempts=2):
            await eventually(lambda: _is_done(dsn))

    assert [row["key"] for row in await query(dsn, "select key from done order by key")] == [1, 3]
    group = await group_of(dsn)
    assert group.set_aside == 1
    assert "lost its connection" in str(group.error)
    assert not [line for line in logs if line["event"] == "Postgres does not answer"]


async def test_consume_once_works_on_an_open_connection(dsn: str, kind: Kind) -> None:
    await append(dsn, 1, 2, 3)
    async with kind.opened() as connection:

        def work(given: Any, records: Sequence[LogRecord]) -> Iterator[Any]:
            assert given is connection
            for record in records:
                yield kind.run(given, INSERT.format(record.timer_key))

        once = work_of(kind, work)
        counts = [await settled(consume_once(connection, "g", once, limit=2)) for _ in range(3)]
        if not kind.commits_each:
            await settled(kind.run(connection, "select 1"))
            with pytest.raises(TypeError, match="end the open transaction of the connection first"):
                await settled(consume_once(connection, "g", once))

    assert counts == [2, 1, 0]
    assert [row["key"] for row in await query(dsn, "select key from done order by key")] == [1, 2, 3]


async def test_the_log_is_read_without_a_group_in_the_user_s_transaction(dsn: str, kind: Kind) -> None:
    positions = await append(dsn, 1, 2, 3)
    async with kind.opened() as connection:
        first = await settled(read_log(connection, limit=2))
        rest = await settled(read_log(connection, first[-1].position))
        end = await settled(log_end(connection))

    assert [record.position for record in first + rest] == positions
    assert end >= positions[-1]
    assert (first[0].timer_key, first[0].intent, first[0].payload) == (1, "TRIGGERED", None)
    (row,) = await query(
        dsn, "select recorded_at, due_date from shardclock.command_log where position = $1", positions[0]
    )
    assert (first[0].recorded_at, first[0].due_date) == (row["recorded_at"], row["due_date"])


async def test_a_consumers_session_is_made_within_its_work(kinds: dict[str, Kind], dsn: str) -> None:
    await append(dsn, 1)

    def work(connection: Any, records: Sequence[LogRecord]) -> None:
        with Session(connection) as session:
            session.execute(sqlalchemy.text(INSERT.format(records[0].timer_key)))
            session.commit()

    async with member(dsn, kinds["sqlalchemy_connection"], consume, work):
        await eventually(lambda: _is_done(dsn))
    with pytest.raises(TypeError, match="a session takes one for each transaction"):
        consume(kinds["sqlalchemy_session"].connect, "g", work)

    assert [row["key"] for row in await query(dsn, "select key from done")] == [1]
