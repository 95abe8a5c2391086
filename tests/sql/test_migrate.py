"""Prove that `migrate` applies every missing step, and applies no step twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from uuid import uuid4

import asyncpg
import pytest

from shardclock_server.sql import migrate as module
from shardclock_server.sql.migrate import MigrationResult, TablesInUse, WrongSchema, as_script, migrate, require_current
from shardclock_server.sql.scripts import SqlScript, functions, removed, steps
from shardclock_server.sql.session import StatementRefused
from tests.conftest import VERSIONS
from tests.support.factories import BOUND_S, query, value
from tests.support.log_days import add_records, days_ahead, partitions
from tests.support.postgres import Server
from tests.support.roles import SUPERUSER
from tests.support.sql_client import session
from tests.support.waiting import eventually

# All parts of a schema, without values that differ between two databases.
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
    "triggers": """
        select pg_get_triggerdef(t.oid), t.tgenabled::text
        from pg_trigger t join pg_class c on c.oid = t.tgrelid
        where c.relnamespace = 'shardclock'::regnamespace and not t.tgisinternal order by 1""",
    "sequences": """
        select s.sequencename, s.data_type::text, s.cache_size from pg_sequences s
        where s.schemaname = 'shardclock' order by 1""",
    "views": "select viewname, definition from pg_views where schemaname = 'shardclock' order by 1",
    "indexes": "select indexname, indexdef from pg_indexes where schemaname = 'shardclock' order by 1",
    "rows": "select s.wanted, c.ramp_per_s from shardclock.coordination c, shardclock.scale s",
    "zones": "select zone from shardclock.zones order by 1",
    "steps": "select version, name, checksum from shardclock.migrations order by 1",
    "made functions": "select name, checksum, release from shardclock.functions order by 1",
}


@pytest.fixture(params=VERSIONS, ids=lambda version: f"postgres{version}")
async def empty(request: pytest.FixtureRequest, postgres: Callable[[int], Server]) -> AsyncIterator[str]:
    """Name an empty database, on each version in turn."""
    name = f"empty_{uuid4().hex}"
    with postgres(request.param).database() as clone:
        await query(clone, f"create database {name} template template0")
        yield clone.replace(clone.partition("?")[0].rpartition("/")[2], name)
        await query(clone, f"drop database {name} with (force)")


async def catalog(dsn: str) -> dict[str, list[tuple[object, ...]]]:
    return {name: [tuple(row) for row in await query(dsn, text)] for name, text in CATALOG.items()}


WHOLE = MigrationResult(tuple(step.name for step in steps()), tuple(functions()))
# The locks that block no statement of a shard, worker, engine or client.
HARMLESS = {"AccessShareLock", "RowShareLock", "RowExclusiveLock"}


async def test_an_empty_database_is_brought_up_to_date_and_the_second_call_applies_nothing(empty: str) -> None:
    assert await migrate(empty) == WHOLE
    before = await catalog(empty)
    assert await migrate(empty) == MigrationResult()

    assert await catalog(empty) == before
    async with session(empty, SUPERUSER) as client:
        await require_current(client)


def test_steps_are_numbered_without_a_gap_and_named_for_their_subjects() -> None:
    assert [step.version for step in steps()] == list(range(1, len(steps()) + 1))
    assert [step.name[:5] for step in steps()] == [f"{step.version:04}_" for step in steps()]


async def test_two_processes_that_start_together_do_the_work_once(empty: str) -> None:
    done = await asyncio.gather(*(migrate(empty) for _ in range(4)))

    assert sorted(done, key=lambda applied: len(applied.steps)) == [MigrationResult()] * 3 + [WHOLE]


async def test_the_script_for_a_dba_creates_the_same_schema_and_the_same_records_of_applied_steps(empty: str) -> None:
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
    assert await migrate(empty) == MigrationResult()


async def test_a_step_that_was_edited_after_it_was_applied_is_refused(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *others = steps()
    edited = replace(first, text=first.text + "-- edited")
    monkeypatch.setattr(module, "steps", lambda: (edited, *others))
    sentence = (
        f"step {first.name} of the schema was applied with another text than this program carries: "
        "install the release that applied it, or restore the file"
    )

    with pytest.raises(WrongSchema) as refused:
        await migrate(dsn)
    async with session(dsn) as client:
        with pytest.raises(WrongSchema) as unfit:
            await require_current(client)

    assert str(refused.value) == str(unfit.value) == sentence


async def test_a_schema_from_before_the_first_release_is_refused_and_left_unchanged(dsn: str) -> None:
    await query(dsn, "drop table shardclock.functions")
    before = {name: await query(dsn, text) for name, text in CATALOG.items() if name != "made functions"}
    sentence = (
        "a version before the first release made the schema of this database, and no release can change it: make a new"
        " database, and run `shardclock migrate` there"
    )

    for with_roles in (False, True):
        with pytest.raises(WrongSchema) as refused:
            await migrate(dsn, roles=with_roles)
        assert str(refused.value) == sentence
    async with session(dsn) as client:
        with pytest.raises(WrongSchema, match="before the first release"):
            await require_current(client)

    assert {name: await query(dsn, text) for name, text in CATALOG.items() if name in before} == before


async def test_the_error_about_an_old_schema_names_the_command_that_repairs_it(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest = steps()[-1].version
    with_later = (*steps(), SqlScript(f"{newest + 1:04}_later", "create table shardclock.later ();"))
    monkeypatch.setattr(module, "steps", lambda: with_later)

    async with session(dsn) as client:
        with pytest.raises(WrongSchema) as unfit:
            await require_current(client)
        assert str(unfit.value) == (
            f"the database's schema is at version {newest}, this program needs {newest + 1}: run `shardclock migrate`"
        )
        assert await migrate(dsn) == MigrationResult((f"{newest + 1:04}_later",))
        await require_current(client)


async def test_the_error_about_a_missing_schema_also_names_the_command(empty: str) -> None:
    need = steps()[-1].version
    async with session(empty) as client:
        with pytest.raises(WrongSchema) as unfit:
            await require_current(client)

    expected = f"the database's schema is at version 0, this program needs {need}: run `shardclock migrate`"
    assert str(unfit.value) == expected


async def test_a_newer_step_is_accepted(dsn: str) -> None:
    await query(dsn, "insert into shardclock.migrations values (99, '0099_later', 'of a later release')")

    async with session(dsn) as client:
        await require_current(client)
    assert await migrate(dsn) == MigrationResult()


async def test_a_function_of_a_later_release_is_accepted_and_kept(dsn: str) -> None:
    await query(dsn, "update shardclock.functions set checksum = 'later', release = '99.0.0' where name = 'is_free'")
    await query(dsn, "grant select on shardclock.timers to public")

    async with session(dsn) as client:
        await require_current(client)
    assert await migrate(dsn) == MigrationResult()
    with pytest.raises(WrongSchema, match="a later release has migrated the database"):
        await migrate(dsn, roles=True)

    assert await value(dsn, "select checksum from shardclock.functions where name = 'is_free'") == "later"
    # The roles of a later release may need this right.
    assert await value(dsn, "select has_table_privilege('public', 'shardclock.timers', 'select')")


# Releases that change only functions


def changed(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Change the program's functions, so that their text differs from the functions in the database."""
    edited = {name: replace(functions()[name], text=f"-- edited\n{functions()[name].text}") for name in names}
    made = {**functions(), **edited}
    monkeypatch.setattr(module, "functions", lambda: made)


async def test_only_functions_with_a_changed_file_are_replaced(each_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = "select xmin::text from shardclock.functions where name = $1"
    other = await value(each_dsn, made, "late_since")
    changed(monkeypatch, "is_free", "later")

    async with session(each_dsn) as client:
        with pytest.raises(WrongSchema, match="function is_free is not this program's: run `shardclock migrate`"):
            await require_current(client)
        assert await migrate(each_dsn) == MigrationResult((), ("is_free", "later"))
        await require_current(client)

    assert await value(each_dsn, made, "late_since") == other
    assert await migrate(each_dsn) == MigrationResult()


async def test_a_manually_dropped_function_is_created_again(dsn: str) -> None:
    await query(dsn, "drop function shardclock.find_timers")

    assert await migrate(dsn) == MigrationResult((), ("find_timers",))


async def test_a_function_with_other_arguments_replaces_the_removed_function(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a session that has searched before, and a release with another argument of that function
    key = await value(dsn, "select shardclock.schedule_timer(delay => 'PT1H')")
    connection = await asyncpg.connect(dsn)
    try:
        find = await connection.prepare("select k from shardclock.find_keys(tenant_id => $1) as k")
        assert [row["k"] for row in await find.fetch("default")] == [key]
        arguments = await value(
            dsn, "select pg_get_function_identity_arguments(oid) from pg_proc where proname = 'find_keys'"
        )
        types = ", ".join(argument.partition(" ")[2] for argument in arguments.split(", "))
        text = functions()["find_keys"].text.replace(
            "page_size integer default", "with_others boolean default false, page_size integer default"
        )
        made = {**functions(), "find_keys": SqlScript("find_keys", text)}
        gone = SqlScript("removed", f"{removed().text}drop function if exists shardclock.find_keys({types});\n")
        monkeypatch.setattr(module, "functions", lambda: made)
        monkeypatch.setattr(module, "removed", lambda: gone)

        # When it is applied
        assert await migrate(dsn) == MigrationResult((), ("find_keys",))

        # Then the session continues, and one function has this name
        assert [row["k"] for row in await find.fetch("default")] == [key]
        assert await value(dsn, "select count(*) from pg_proc where proname = 'find_keys'") == 1
        assert await migrate(dsn) == MigrationResult()
    finally:
        await connection.close()


async def test_changed_functions_take_no_lock_that_blocks_a_shard(
    each_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a release that changes all functions; the last function asks Postgres for the locks of its transaction
    edited = {name: replace(it, text=f"-- edited\n{it.text}") for name, it in functions().items()}
    locks = """
        create table public.locks as
        select distinct c.relname, l.mode from pg_locks l join pg_class c on c.oid = l.relation
        where l.pid = pg_backend_pid() and c.relnamespace = 'shardclock'::regnamespace
    """
    monkeypatch.setattr(module, "functions", lambda: edited)
    monkeypatch.setattr(module, "_NOT_PUBLIC", f"{module._NOT_PUBLIC};{locks}")
    owned = "grant create on schema public to shardclock_owner"
    await query(each_dsn, owned)

    # When the release is applied while a shard has locked its rows
    shard = await asyncpg.connect(each_dsn)
    try:
        await shard.execute("begin; select from shardclock.timers for update; select from shardclock.holders for share")
        async with asyncio.timeout(BOUND_S):
            assert await migrate(each_dsn) == MigrationResult((), tuple(functions()))
    finally:
        await shard.close()

    # Then no statement of another session had to wait
    held = [tuple(row) for row in await query(each_dsn, "select relname, mode from public.locks")]
    assert {mode for _, mode in held} <= HARMLESS
    assert "timers" in {name for name, _ in held}, "functions that read it are made"


async def test_a_migration_waits_for_tables_in_use_without_blocking_other_sessions(
    empty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a session at work, and roles that are still to be made
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

        # When the migration is tried again, the session may lock other tables, in any order.
        monkeypatch.setattr(module, "LOCK_TRIES", 1_000)
        migrating = asyncio.create_task(migrate(empty, roles=True))
        async with asyncio.timeout(BOUND_S):
            await eventually(lambda: worker.fetchval("select exists (select from pg_locks where not granted)"))
            await worker.execute("select from shardclock.coordination for share")
        assert not migrating.done()
        await worker.execute("commit")

        assert await migrating == MigrationResult()
        assert await value(empty, owner) == "shardclock_owner"
    finally:
        await worker.close()


async def test_a_migration_waits_for_a_day_of_the_log_that_is_being_dropped(each_dsn: str) -> None:
    # Given a coordinator that drops a day's partition in a transaction
    await add_records(each_dsn, -3)
    coordinator = await asyncpg.connect(each_dsn)
    try:
        await coordinator.execute("begin; select shardclock.drop_log_partition(1)")

        # The migration renews the rights of all tables, so it waits for the end of that transaction.
        migrating = asyncio.create_task(migrate(each_dsn))
        async with asyncio.timeout(BOUND_S):
            await eventually(lambda: coordinator.fetchval("select exists (select from pg_locks where not granted)"))
        await coordinator.execute("commit")

        assert await migrating == MigrationResult()
        assert days_ahead(-3, -3)[0] not in await partitions(each_dsn)
    finally:
        await coordinator.close()


async def test_a_hanging_migration_soon_loses_its_locks_of_all_tables(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting = "create table shardclock.seen as select current_setting('idle_in_transaction_session_timeout') as idle;"
    monkeypatch.setattr(module, "steps", lambda: (*steps(), SqlScript("0099_seen", setting)))
    await migrate(dsn)
    assert await value(dsn, "select idle from shardclock.seen") == "10s"


async def test_a_failed_step_leaves_the_database_unchanged(empty: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with_broken = (*steps(), SqlScript("0099_broken", "create table shardclock.half (); select 1 / 0;"))
    monkeypatch.setattr(module, "steps", lambda: with_broken)

    with pytest.raises(StatementRefused, match="division by zero"):
        await migrate(empty)

    assert await value(empty, "select to_regnamespace('shardclock')") is None
