"""Prove that the schema comes up to date once and whole."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from uuid import uuid4

import asyncpg
import pytest

from sql import migrate as module
from sql.migrate import Migration, TablesInUse, WrongSchema, as_script, migrate, migrations, require_current
from sql.session import StatementRefused
from tests.conftest import VERSIONS
from tests.support.factories import BOUND_S, query, value
from tests.support.postgres import Server
from tests.support.roles import SUPERUSER
from tests.support.sql_client import session
from tests.support.waiting import eventually

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
    "indexes": "select indexname, indexdef from pg_indexes where schemaname = 'shardclock' order by 1",
    "rows": "select s.wanted, c.ramp_per_s from shardclock.coordination c, shardclock.scale s",
    "zones": "select zone from shardclock.zones order by 1",
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


async def test_an_empty_database_is_brought_up_to_date_and_the_second_time_there_is_nothing_to_do(empty: str) -> None:
    names = [step.name for step in migrations()]

    assert await migrate(empty) == names
    before = await catalog(empty)
    assert await migrate(empty) == []

    assert await catalog(empty) == before
    async with session(empty, SUPERUSER) as client:
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


async def test_tables_that_are_in_use_are_waited_for_without_holding_anybody_up(
    empty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given somebody at work, and the roles still to come
    await migrate(empty)
    owner = "select nspowner::regrole::text from pg_namespace where nspname = 'shardclock'"
    monkeypatch.setattr(module, "LOCK_PAUSE_S", 0.01)
    worker = await asyncpg.connect(empty)
    try:
        await worker.execute("begin; select from shardclock.holders for share")
        monkeypatch.setattr(module, "LOCK_TRIES", 2)
        with pytest.raises(TablesInUse, match="in use at 2 tries, and nothing was changed"):
            await migrate(empty, roles=True)
        assert await value(empty, owner) == "postgres"

        # When it is tried again, then who works may take what else they need, in whatever order.
        monkeypatch.setattr(module, "LOCK_TRIES", 1_000)
        migrating = asyncio.create_task(migrate(empty, roles=True))
        async with asyncio.timeout(BOUND_S):
            await eventually(lambda: worker.fetchval("select exists (select from pg_locks where not granted)"))
            await worker.execute("select from shardclock.coordination for share")
        assert not migrating.done()
        await worker.execute("commit")

        assert await migrating == []
        assert await value(empty, owner) == "shardclock_owner"
    finally:
        await worker.close()


async def test_a_migration_that_fails_leaves_the_database_as_it_was(
    empty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = Migration(99, "0099_broken", "create table shardclock.half (); select 1 / 0;")
    steps = (*migrations(), broken)
    monkeypatch.setattr(module, "migrations", lambda: steps)

    with pytest.raises(StatementRefused, match="division by zero"):
        await migrate(empty)

    assert await value(empty, "select to_regnamespace('shardclock')") is None


async def test_a_session_goes_on_when_a_function_that_it_has_prepared_gets_another_signature(
    empty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a session of the previous release, which has searched before
    before = tuple(step for step in migrations() if step.version < 14)
    with monkeypatch.context() as previous:
        previous.setattr(module, "migrations", lambda: before)
        await migrate(empty)
    connection = await asyncpg.connect(empty)
    try:
        find = await connection.prepare("select timer_key from shardclock.find_timers(state => $1, page_size => $2)")
        keys = await connection.prepare("select k from shardclock.find_keys(tenant_id => $1) as k")
        assert (await find.fetch("PENDING", 10), await keys.fetch("default")) == ([], [])
        key = await connection.fetchval("select shardclock.schedule_timer(delay => 'PT1H')")

        # When the schema comes up to date
        assert "0014_targets" in await migrate(empty)

        # Then it finds as before
        assert [row["timer_key"] for row in await find.fetch("PENDING", 10)] == [key]
        assert [row["k"] for row in await keys.fetch("default")] == [key]
    finally:
        await connection.close()
