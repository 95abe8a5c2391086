"""Prove that the schema comes up to date once and whole, and that the log always has a place for its records."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import asyncpg
import pytest

from sql import migrate as module
from sql.migrate import Migration, WrongSchema, as_script, migrate, migrations, require_current
from sql.partitions import ensure_log_partitions
from sql.session import Session, StatementRefused
from tests.conftest import VERSIONS
from tests.postgres import Server
from tests.store import BOUND_S, Hand, add_holder, add_timers, ends, intents, query, value, waits

# All that makes a schema, with nothing in it that differs between two databases.
CATALOG = {
    "columns": """
        select c.relname, c.relkind::text, c.reloptions, a.attname, format_type(a.atttypid, a.atttypmod) as type,
            a.attnotnull, a.attgenerated::text, pg_get_expr(d.adbin, d.adrelid) as default,
            col_description(c.oid, a.attnum), obj_description(c.oid, 'pg_class')
        from pg_class c
        join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
        left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
        where c.relnamespace = 'shardclock'::regnamespace
        order by c.relname, a.attnum""",
    "constraints": """
        select c.relname, k.conname, pg_get_constraintdef(k.oid)
        from pg_constraint k join pg_class c on c.oid = k.conrelid
        where k.connamespace = 'shardclock'::regnamespace order by 1, 2""",
    "partitions": """
        select c.relname, pg_get_expr(c.relpartbound, c.oid)
        from pg_class c where c.relnamespace = 'shardclock'::regnamespace and c.relispartition order by 1""",
    "functions": """
        select p.proname, pg_get_functiondef(p.oid), obj_description(p.oid, 'pg_proc')
        from pg_proc p where p.pronamespace = 'shardclock'::regnamespace order by 1, 2""",
    "views": "select viewname, definition from pg_views where schemaname = 'shardclock' order by 1",
    "rows": "select shards_wanted, term, leader from shardclock.coordination",
    "bookkeeping": "select version, name, checksum from shardclock.migrations order by 1",
}


@pytest.fixture(params=VERSIONS, ids=lambda version: f"postgres{version}")
async def empty(request: pytest.FixtureRequest, postgres: Callable[[int], Server]) -> AsyncIterator[str]:
    """Name an empty database, on each version in turn."""
    server = postgres(request.param)
    clone = server.clone()
    name = f"empty_{uuid4().hex}"
    await query(clone, f"create database {name} template template0")
    yield clone.replace(clone.partition("?")[0].rpartition("/")[2], name)
    await query(clone, f"drop database {name} with (force)")
    server.drop(clone)


async def catalog(dsn: str) -> dict[str, list[tuple[object, ...]]]:
    """Read all that makes the schema."""
    return {name: [tuple(row) for row in await query(dsn, text)] for name, text in CATALOG.items()}


def session(dsn: str) -> Session:
    """Open a session."""
    return Session(dsn, application="test", timeout_s=BOUND_S)


async def test_an_empty_database_is_brought_up_to_date_and_the_second_time_there_is_nothing_to_do(empty: str) -> None:
    names = [step.name for step in migrations()]

    assert await migrate(empty) == names
    before = await catalog(empty)
    assert await migrate(empty) == []

    assert await catalog(empty) == before
    async with session(empty) as client:
        await require_current(client)


def test_migrations_are_numbered_without_a_gap_and_named_for_what_they_bring() -> None:
    assert [step.version for step in migrations()] == list(range(1, len(migrations()) + 1))
    assert [step.name[:5] for step in migrations()] == [f"{step.version:04}_" for step in migrations()]


async def test_two_that_start_together_do_the_work_once(empty: str) -> None:
    done = await asyncio.gather(*(migrate(empty) for _ in range(4)))

    assert sorted(done, key=len)[:-1] == [[], [], []]
    assert max(done, key=len) == [step.name for step in migrations()]


async def test_the_script_for_a_dba_makes_the_same_schema_and_the_same_bookkeeping(empty: str) -> None:
    await migrate(empty)
    expected = await catalog(empty)
    assert all(expected.values())
    connection = await asyncpg.connect(empty)
    try:
        await connection.execute("drop schema shardclock cascade")
        await connection.execute(as_script())
    finally:
        await connection.close()

    assert await catalog(empty) == expected
    assert await migrate(empty) == []


async def test_a_migration_that_was_edited_after_it_was_applied_is_refused(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *others = migrations()
    edited = replace(first, text=first.text + "-- edited")
    monkeypatch.setattr(module, "migrations", lambda: (edited, *others))
    sentence = (
        f"migration {first.name} was applied with another text than this program carries: "
        "install the release that applied it, or restore the file"
    )

    with pytest.raises(WrongSchema) as refused:
        await migrate(dsn)
    async with session(dsn) as client:
        with pytest.raises(WrongSchema) as unfit:
            await require_current(client)

    assert str(refused.value) == str(unfit.value) == sentence


async def test_a_schema_that_is_too_old_names_the_command_that_mends_it(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest = migrations()[-1].version
    later = Migration(newest + 1, "0099_later", "create table shardclock.later ()")
    steps = (*migrations(), later)
    monkeypatch.setattr(module, "migrations", lambda: steps)

    async with session(dsn) as client:
        with pytest.raises(WrongSchema) as unfit:
            await require_current(client)
        assert str(unfit.value) == (
            f"the database's schema is at version {newest}, this program needs {newest + 1}: run `shardclock migrate`"
        )
        assert await migrate(dsn) == ["0099_later"]
        await require_current(client)


async def test_a_database_without_the_schema_names_the_command_too(empty: str) -> None:
    need = migrations()[-1].version
    async with session(empty) as client:
        with pytest.raises(WrongSchema) as unfit:
            await require_current(client)

    expected = f"the database's schema is at version 0, this program needs {need}: run `shardclock migrate`"
    assert str(unfit.value) == expected


async def test_a_newer_schema_is_welcome(dsn: str) -> None:
    await query(dsn, "insert into shardclock.migrations values (99, '0099_later', 'of a later release')")

    async with session(dsn) as client:
        await require_current(client)
    assert await migrate(dsn) == []


async def test_a_migration_that_fails_leaves_the_database_as_it_was(
    empty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = Migration(99, "0099_broken", "create table shardclock.half (); select 1 / 0;")
    steps = (*migrations(), broken)
    monkeypatch.setattr(module, "migrations", lambda: steps)

    with pytest.raises(StatementRefused, match="division by zero"):
        await migrate(empty)

    assert await value(empty, "select to_regnamespace('shardclock')") is None


# The log's partitions


async def partitions(dsn: str) -> list[str]:
    """List the log's partitions."""
    text = "select inhrelid::regclass::text from pg_inherits where inhparent = 'shardclock.command_log'::regclass"
    return sorted(row[0].removeprefix("shardclock.command_log_") for row in await query(dsn, text))


def days(first: int, last: int) -> list[str]:
    """Name the partitions of days from today on."""
    return [(datetime.now(UTC) + timedelta(days=day)).strftime("%Y%m%d") for day in range(first, last + 1)]


async def test_today_and_the_week_ahead_have_partitions_and_making_them_again_makes_none(each_dsn: str) -> None:
    expected = [*days(0, 7), "default"]
    assert await partitions(each_dsn) == expected

    async with session(each_dsn) as client:
        assert await ensure_log_partitions(client) == 0

    assert await partitions(each_dsn) == expected


async def test_missing_partitions_are_made_once_by_many_at_a_time(each_dsn: str) -> None:
    for day in days(3, 5):
        await query(each_dsn, f"drop table shardclock.command_log_{day}")
    clients = [session(each_dsn) for _ in range(4)]

    made = await asyncio.gather(*(ensure_log_partitions(client) for client in clients))

    assert sorted(made) == [0, 0, 0, 3]
    assert await partitions(each_dsn) == [*days(0, 7), "default"]
    for client in clients:
        await client.close()


async def test_a_new_partition_is_like_the_log_in_columns_and_indexes(dsn: str) -> None:
    (day,) = days(2, 2)
    shape = f"""
        select array_agg(attname || ' ' || atttypid::regtype || attnotnull || coalesce(pg_get_expr(adbin, adrelid), '')
            order by attnum), (select count(*) from pg_index where indrelid = attrelid)
        from pg_attribute left join pg_attrdef on adrelid = attrelid and adnum = attnum
        where attnum > 0 and attrelid = any (array[$1::text, 'shardclock.command_log_{day}']::regclass[])
        group by attrelid"""
    await query(dsn, f"drop table shardclock.command_log_{day}")
    async with session(dsn) as client:
        await ensure_log_partitions(client)

    rows = await query(dsn, shape, "shardclock.command_log")

    assert len(rows) == 2
    assert rows[0] == rows[1]


async def test_a_record_lies_in_the_partition_of_its_day(each_dsn: str) -> None:
    (key,) = await add_timers(each_dsn, 1)
    await query(each_dsn, "select shardclock.cancel_timer($1)", key)

    where = await value(each_dsn, "select tableoid::regclass::text from shardclock.command_log")
    day = await value(
        each_dsn, "select to_char(recorded_at at time zone 'UTC', 'YYYYMMDD') from shardclock.command_log"
    )
    assert where == f"shardclock.command_log_{day}"


async def test_without_its_day_s_partition_a_record_lies_in_the_default_and_stays_there(each_dsn: str) -> None:
    # Given a day without its partition, on which a timer fired
    for day in days(0, 1):
        await query(each_dsn, f"drop table shardclock.command_log_{day}")
    await add_holder(each_dsn, 1)
    (key,) = await add_timers(each_dsn, 1)
    async with Hand(each_dsn, holder=1) as shard:
        assert (await shard.take(fuse=True)).fired == 1

    # When the partitions are made after all
    async with session(each_dsn) as client:
        made = [await ensure_log_partitions(client) for _ in range(2)]

    # Then the others are made, and the record is where it was.
    assert made == [1, 0]
    assert await partitions(each_dsn) == [*days(1, 7), "default"]
    assert await value(each_dsn, "select tableoid::regclass::text from shardclock.command_log") == (
        "shardclock.command_log_default"
    )
    assert await intents(each_dsn) == {(key, "TRIGGERED"): 1}


async def test_making_partitions_holds_up_no_firing_even_while_it_waits_for_a_reader(dsn: str) -> None:
    (day,) = days(7, 7)
    await query(dsn, f"drop table shardclock.command_log_{day}")
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
