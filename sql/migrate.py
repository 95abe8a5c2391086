"""Migrate the schema, or check that the schema fits this program.

The schema consists of steps and functions. A step creates or changes tables. No step undoes another step. A released
step is never edited, because the database has recorded the checksum of its text. A function is created again whenever
its file has changed. A migration is one transaction under an advisory lock. If two processes start together, only one
of them applies the steps. If a migration fails, the database is unchanged.
docs/decisions/0078-one-file-for-each-function.md
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from shardclock_server.sql.dropped import find_dropped
from shardclock_server.sql.dsn import Dsn
from shardclock_server.sql.scripts import (
    BOOKKEEPING,
    SqlScript,
    functions,
    in_order,
    record_of,
    release,
    removed,
    roles_text,
    steps,
)
from shardclock_server.sql.session import Connection, Session, StoreLocked

MIGRATE_S = 300.0  # long enough for a step that rewrites large tables
LOCK_TRIES, LOCK_PAUSE_S = 20, 1.0
OWNER = "shardclock_owner"  # the role that sql/roles.sql creates

_SCHEMA = "create schema if not exists shardclock"
_TABLES = "select to_regclass('shardclock.migrations') is not null, to_regclass('shardclock.functions') is not null"
_STEPS = "select version, checksum from shardclock.migrations"
# A function that was dropped (by removed.sql or manually) counts as missing, and is created again.
_FUNCTIONS = """\
select f.name, f.checksum, f.release,
    f.name = 'removed' or exists (
        select from pg_proc p where p.pronamespace = to_regnamespace('shardclock') and p.proname = f.name
    ) as is_there
from shardclock.functions f
"""
# Postgres may parse a function's body at its creation. While Postgres parses the body, each name must refer to
# Postgres's own object, independent of the caller's search_path.
_PATH = "set local search_path = pg_catalog, pg_temp"
# In a database with another encoding, Postgres refuses or truncates names and payloads, with misleading messages.
_NEEDS_UTF8 = (
    'the database "%s" has the encoding %s, and Shardclock needs UTF8: make another one, such as by'
    " create database shardclock encoding 'UTF8' locale 'C' template template0"
)
_ENCODING = "select current_database(), pg_catalog.getdatabaseencoding()"
_REFUSE_OTHER_ENCODINGS = f"""\
do $$
begin
    if pg_catalog.getdatabaseencoding() <> 'UTF8' then
        raise exception '{_NEEDS_UTF8.replace("'", "''").replace("%s", "%")}',
            current_database(), pg_catalog.getdatabaseencoding();
    end if;
end
$$"""
# The second lock keeps other transactions from dropping or renaming partitions of the log. If a partition disappeared
# during the migration, Postgres could refuse to change the partitions' rights.
_LOCK = """\
select pg_advisory_xact_lock(hashtext('shardclock.migrate'));
select pg_advisory_xact_lock(hashtext('shardclock.ensure_log_partitions'))"""
# Lock all tables in one short attempt; if one table is in use, lock no table. While a transaction waits for a lock, all
# later transactions, including the transactions of shards, wait behind it. If the tables were locked one after the
# other, a deadlock with a shard's statement would be possible, and Postgres might cancel the shard's statement.
_LOCK_TABLES = """\
do $$
declare
    names text;
begin
    select string_agg(format('shardclock.%I', c.relname), ', ' order by c.relname) into names
    from pg_class c
    where c.relnamespace = 'shardclock'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition;
    set local lock_timeout = '300ms';
    -- A stopped process must not lock the cluster's tables for long.
    set local idle_in_transaction_session_timeout = '10s';
    if names is not null then
        execute 'lock table ' || names || ' in access exclusive mode';
    end if;
    set local lock_timeout = 0;
end
$$
"""
# New objects belong to the schema's owner, even if another member of the owner's role creates them.
_OWNER_OF_SCHEMA = (
    "select r.rolname from pg_namespace n join pg_roles r on r.oid = n.nspowner where n.nspname = 'shardclock'"
)
_AS_OWNER = "select set_config('role', $1, true) where current_user <> $1"
_AS_SELF = "set local role none"
# By default, all roles may execute a new function; default privileges for a single schema can't revoke this right.
_NOT_PUBLIC = """\
revoke all on schema shardclock from public;
revoke all on all routines in schema shardclock from public;
"""
# The database's setting shardclock.wall turns row-level security on or off. Creating and removing its policies needs a
# lock on all tables.
_WALL_IS_TO_CHANGE = """\
select current_setting('shardclock.wall', true) = case
    when exists (select from pg_policies p where p.schemaname = 'shardclock' and p.policyname = 'served_rows')
        then 'off' else 'on'
end
"""


class TablesInUse(Exception):
    """The tables could not be locked; the message explains how to proceed."""


class WrongSchema(Exception):
    """The database's schema does not match this program's release. The message explains how to proceed."""


class WrongEncoding(WrongSchema):
    """The database's encoding can't represent all text; the message shows how to make a suitable database."""


@dataclass(frozen=True)
class MigrationResult:
    """The names of the steps and functions that one call applied, in order."""

    steps: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Lacks:
    """The missing steps and functions of a database, and whether a later release has migrated the database."""

    steps: tuple[SqlScript, ...]
    functions: Mapping[str, SqlScript]
    is_newer: bool


async def migrate(dsn: Dsn | str, *, roles: bool = False) -> MigrationResult:
    """Apply the missing steps and functions; with `roles`, create the roles and renew their rights.

    A database that a later release has migrated is not changed. The function locks tables only if a step is missing, or
    if the owner or the policies of row-level security change. A running cluster is not blocked for long: if a table is
    in use, the function releases its locks and tries again, for about half a minute.

    errors:  WrongSchema       a step was edited after it had been applied; or an object of a step was dropped; or a
                               version before the first release made the schema; or `roles` is set, and a later release
                               has migrated the database
             WrongEncoding     the database can't store all characters
             StatementRefused  the role has no right to change the schema, or to create roles
             TablesInUse       the tables were in use at every attempt; nothing was applied
             StoreUnavailable  no answer: either all scripts were applied, or none; call again
    source:  sql/schema, sql/functions, sql/roles.sql
    """
    for _ in range(LOCK_TRIES - 1):
        with suppress(StoreLocked):
            return await _migrate_at_once(dsn, roles=roles)
        await asyncio.sleep(LOCK_PAUSE_S)
    try:
        return await _migrate_at_once(dsn, roles=roles)
    except StoreLocked:
        raise TablesInUse(
            f"the tables were in use at {LOCK_TRIES} tries, and nothing was changed: end the transaction that holds"
            " them, most likely the oldest transaction in pg_stat_activity, and call again"
        ) from None


async def _migrate_at_once(dsn: Dsn | str, *, roles: bool) -> MigrationResult:
    async with (
        Session(dsn, application="shardclock migrate", timeout_s=MIGRATE_S) as session,
        session.transaction() as connection,
    ):
        await _require_utf8(connection)
        await connection.execute(_LOCK)
        found = await _lacks(connection)
        if found.is_newer:
            return _nothing(roles=roles)
        await _require_objects(connection, found.steps)
        owner = await _become_owner(connection)
        await connection.execute(BOOKKEEPING)
        await _remove_functions(connection)
        lacks = await _lacks(connection)
        has_roles = roles or owner == OWNER
        gives_away = roles and owner != OWNER
        if lacks.steps or gives_away or (has_roles and await connection.fetchval(_WALL_IS_TO_CHANGE)):
            await connection.execute(_LOCK_TABLES)
        for script in in_order(lacks.steps, lacks.functions):
            await connection.execute(f"{script.text}\n{record_of(script)}")
        await connection.execute(_NOT_PUBLIC)
        await connection.execute(_AS_SELF)
        if has_roles:
            await connection.execute(roles_text())
    return MigrationResult(tuple(step.name for step in lacks.steps), tuple(lacks.functions))


async def _become_owner(connection: Connection) -> str | None:
    """Create the schema, or switch to the role that owns the schema; return the schema's former owner."""
    owner: str | None = await connection.fetchval(_OWNER_OF_SCHEMA)
    if owner is None:
        await connection.execute(_SCHEMA)
    else:
        await connection.execute(_AS_OWNER, owner)
    return owner


def _nothing(*, roles: bool) -> MigrationResult:
    if roles:
        raise WrongSchema(
            "a later release has migrated the database, so this one can't make the roles: run"
            " `shardclock migrate --roles` of that release"
        )
    return MigrationResult()


async def _remove_functions(connection: Connection) -> None:
    known = await connection.fetchval("select f.checksum from shardclock.functions f where f.name = 'removed'")
    if known != removed().checksum:
        await connection.execute(f"{removed().text}\n{record_of(removed())}")


def as_script(*, roles: bool = False) -> str:
    """Return the whole schema as one SQL script for an empty database."""
    texts = (
        f"-- {script.name}\n{script.text}\n{record_of(script)}"
        for script in [*in_order(steps(), functions()), removed()]
    )
    first = (f"{each};" for each in (_PATH, _REFUSE_OTHER_ENCODINGS, _LOCK, _SCHEMA))
    last = [roles_text()] if roles else []
    return "\n".join(["begin;", *first, BOOKKEEPING, *texts, _NOT_PUBLIC, *last, "commit;"])


async def require_current(session: Session) -> None:
    """Raise an error if the schema is older than this program.

    A newer schema is accepted, because during an upgrade the processes of this release run on the next release's
    schema.

    errors:  WrongSchema       the schema is missing, too old or edited; the message names the command that repairs it
             WrongEncoding     the database can't store all characters
             StoreUnavailable  no answer before the timeout
    """
    async with session.connection() as connection:
        await _require_utf8(connection)
        lacks = await _lacks(connection)
    if lacks.is_newer:
        return
    if lacks.steps:
        have, need = lacks.steps[0].version - 1, steps()[-1].version
        raise WrongSchema(
            f"the database's schema is at version {have}, this program needs {need}: run `shardclock migrate`"
        )
    if lacks.functions:
        raise WrongSchema(
            f"the database's function {next(iter(lacks.functions))} is not this program's: run `shardclock migrate`"
        )


async def require_objects(session: Session) -> None:
    """Raise an error if an object of an applied step was dropped; skip the database of a later release.

    A cluster starts without this check, because most timers fire even if a rarely used table is missing.

    errors:  WrongSchema       the message names the object and the remedy
             StoreUnavailable  no answer before the timeout
    """
    async with session.connection() as connection:
        lacks = await _lacks(connection)
        if not lacks.is_newer:
            await _require_objects(connection, lacks.steps)


async def _require_utf8(connection: Connection) -> None:
    row = await connection.fetchrow(_ENCODING)
    assert row is not None
    name, encoding = row
    if encoding != "UTF8":
        raise WrongEncoding(_NEEDS_UTF8 % (name, encoding))


async def _lacks(connection: Connection) -> _Lacks:
    """Compare the database with this program's scripts.

    errors:  WrongSchema  a step was applied with another text; or the table of steps was dropped; or a version before
                          the first release created the schema
    """
    row = await connection.fetchrow(_TABLES)
    assert row is not None
    has_steps, has_functions = row
    if has_steps and not has_functions:
        raise WrongSchema(
            "a version before the first release made the schema of this database, and no release can change it: make a"
            " new database, and run `shardclock migrate` there"
        )
    if has_functions and not has_steps:
        raise _incomplete("the table migrations")
    if not has_steps:
        return _Lacks(steps(), functions(), is_newer=False)
    applied = {each["version"]: each["checksum"] for each in await connection.fetch(_STEPS)}
    made = await connection.fetch(_FUNCTIONS)
    there = {each["name"]: each["checksum"] for each in made if each["is_there"]}
    return _Lacks(
        _missing(applied),
        {name: script for name, script in functions().items() if there.get(name) != script.checksum},
        is_newer=max(applied, default=0) > steps()[-1].version
        or any(_order_of(each["release"]) > _order_of(release()) for each in made),
    )


async def _require_objects(connection: Connection, missing: Sequence[SqlScript]) -> None:
    dropped = await find_dropped(connection, [step for step in steps() if step not in missing])
    if dropped:
        raise _incomplete(dropped)


def _incomplete(dropped: str) -> WrongSchema:
    return WrongSchema(
        f"the schema shardclock has lost {dropped}, and no migration brings back the rows: restore the database from a"
        " backup"
    )


def _missing(applied: Mapping[int, str]) -> tuple[SqlScript, ...]:
    for step in steps():
        if applied.get(step.version, step.checksum) != step.checksum:
            raise WrongSchema(
                f"step {step.name} of the schema was applied with another text than this program carries: "
                "install the release that applied it, or restore the file"
            )
    return tuple(step for step in steps() if step.version not in applied)


def _order_of(release: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", release)[:3])
