"""Bring the schema up to date, or check that this program can work with it.

Migrations go forward only and are never edited after their release: each is recorded with the checksum of its text.
The missing ones are applied in one transaction under an advisory lock. So two processes that start together do the
work once, and a failure leaves the database as it was.
"""

import asyncio
import hashlib
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from sql.dsn import Dsn
from sql.session import NOT_ALLOWED, Connection, Session, StatementRefused, StoreLocked

MIGRATE_S = 300.0  # a later migration may have much to rewrite
LOCK_TRIES, LOCK_PAUSE_S = 20, 1.0
OWNER = "shardclock_owner"  # the role that sql/roles.sql makes

_SCHEMA = "create schema if not exists shardclock"
_BOOKKEEPING = """\
create table if not exists shardclock.migrations (
    version integer not null primary key,
    name text not null,
    checksum text not null,
    applied_at timestamptz not null default now()
);
"""
# A function's body may be parsed when it is created. Then a name must mean Postgres's own, whoever applies the script.
_PATH = "set local search_path = pg_catalog, pg_temp"
# In a database of another encoding names and payloads are refused or cut, each with another reason that is not true.
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
_LOCK = "select pg_advisory_xact_lock(hashtext('shardclock.migrate'))"
# Lock all tables at once and soon, or none. While we wait for a lock, later transactions wait behind us, those of
# shards too. Locking one table after the other, while shards hold some and want others, ends in a deadlock, and a
# shard's statement may be its victim.
_LOCK_TABLES = """\
do $$
declare
    names text;
begin
    select string_agg(format('shardclock.%I', c.relname), ', ' order by c.relname) into names
    from pg_class c
    where c.relnamespace = 'shardclock'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition;
    set local lock_timeout = '300ms';
    if names is not null then
        execute 'lock table ' || names || ' in access exclusive mode';
    end if;
    set local lock_timeout = 0;
end
$$
"""
# What a migration creates belongs to the schema's owner, whichever member of the owner's role applies it.
_OWNER_OF_SCHEMA = (
    "select r.rolname from pg_namespace n join pg_roles r on r.oid = n.nspowner where n.nspname = 'shardclock'"
)
_AS_OWNER = "select set_config('role', $1, true) where current_user <> $1"
_AS_SELF = "set local role none"
# Postgres lets everybody execute a new function, and default privileges for a single schema can't change that.
_NOT_PUBLIC = """\
revoke all on schema shardclock from public;
revoke all on all routines in schema shardclock from public;
"""
_RECORD = "insert into shardclock.migrations (version, name, checksum) values"
# A later release brought this role. Whoever may make no roles migrates without it, unless roles were asked for.
_HAS_LATER_ROLE = "select to_regrole('shardclock_gateway') is not null"
# Policies are made or taken away where the database asks for that; both need all tables.
_WALL_IS_TO_CHANGE = """\
select current_setting('shardclock.wall', true) = case
    when exists (select from pg_policies p where p.schemaname = 'shardclock' and p.policyname = 'served_rows')
        then 'off' else 'on'
end
"""


class TablesInUse(Exception):
    """The tables could not be locked; the message says what to do."""


class WrongSchema(Exception):
    """The database's schema is not the one that this program needs; the message says how to repair it."""


class WrongEncoding(WrongSchema):
    """The database can't hold all text; the message says how to make one that can."""


@dataclass(frozen=True)
class Migration:
    """One numbered step of the schema."""

    version: int
    name: str
    text: str

    @property
    def checksum(self) -> str:
        """Digest the text, so that a later edit is noticed."""
        return hashlib.sha256(self.text.encode()).hexdigest()


@cache
def migrations() -> tuple[Migration, ...]:
    """Read all migrations, in order."""
    found = (path for path in files("sql").joinpath("migrations").iterdir() if path.name.endswith(".sql"))
    steps = (
        Migration(version=int(path.name[:4]), name=path.name[:-4], text=path.read_text(encoding="utf-8"))
        for path in found
    )
    return tuple(sorted(steps, key=lambda step: step.version))


async def migrate(dsn: Dsn | str, *, roles: bool = False) -> list[str]:
    """Apply the migrations that the database lacks; make the roles if asked to, and renew their rights if they exist.

    A running cluster is not blocked for long: if others have locked a table, this gives up and tries again, for about
    half a minute.

    shape:   the names of the applied migrations, in order; empty if there was nothing to do
    errors:  WrongSchema       a migration was edited after it had been applied
             WrongEncoding     the database can't hold all text
             StatementRefused  the role may not change the schema, or make roles
             TablesInUse       others had locked the tables at every try; nothing was applied
             StoreUnavailable  no answer: nothing, or everything, was applied; call again
    source:  sql/migrations, sql/roles.sql
    """
    for _ in range(LOCK_TRIES - 1):
        with suppress(StoreLocked):
            return await _migrate_at_once(dsn, roles=roles)
        await asyncio.sleep(LOCK_PAUSE_S)
    try:
        return await _migrate_at_once(dsn, roles=roles)
    except StoreLocked:
        raise TablesInUse(
            f"the tables were in use at {LOCK_TRIES} tries, and nothing was changed: end what holds them, most likely"
            " the oldest transaction in pg_stat_activity, and call again"
        ) from None


async def _migrate_at_once(dsn: Dsn | str, *, roles: bool) -> list[str]:
    async with (
        Session(dsn, application="shardclock migrate", timeout_s=MIGRATE_S) as session,
        session.transaction() as connection,
    ):
        await _require_utf8(connection)
        await connection.execute(_LOCK)
        owner = await connection.fetchval(_OWNER_OF_SCHEMA)
        if owner is None:
            await connection.execute(_SCHEMA)
        else:
            await connection.execute(_AS_OWNER, owner)
        await connection.execute(_BOOKKEEPING)
        missing = _missing(await _applied(connection))
        has_roles = roles or owner == OWNER
        gives_away = roles and owner != OWNER
        if missing or gives_away or (has_roles and await connection.fetchval(_WALL_IS_TO_CHANGE)):
            await connection.execute(_LOCK_TABLES)
        for step in missing:
            await connection.execute(step.text)
            await connection.execute(f"{_RECORD} ($1, $2, $3)", step.version, step.name, step.checksum)
        await connection.execute(_NOT_PUBLIC)
        await connection.execute(_AS_SELF)
        if has_roles:
            await connection.execute(roles_text())
        if roles and not await connection.fetchval(_HAS_LATER_ROLE):
            raise StatementRefused("permission denied to create role shardclock_gateway", sqlstate=NOT_ALLOWED)
    return [step.name for step in missing]


def as_script(*, roles: bool = False) -> str:
    """Return all migrations as one SQL script, for a DBA who applies them by hand to an empty database."""
    steps = (
        f"-- {step.name}\n{step.text}\n{_RECORD} ({step.version}, '{step.name}', '{step.checksum}');\n"
        for step in migrations()
    )
    first = (f"{each};" for each in (_PATH, _REFUSE_OTHER_ENCODINGS, _LOCK, _SCHEMA))
    last = [roles_text()] if roles else []
    return "\n".join(["begin;", *first, _BOOKKEEPING, *steps, _NOT_PUBLIC, *last, "commit;"])


@cache
def roles_text() -> str:
    """Read the script that makes the roles and grants each its rights."""
    return files("sql").joinpath("roles.sql").read_text(encoding="utf-8")


async def require_current(session: Session) -> None:
    """Refuse to work on a schema that is older than this program.

    A newer schema is fine: migrations keep the previous release running, so that both can run during an upgrade.

    errors:  WrongSchema       too old, absent, or edited: the message names the command that repairs it
             WrongEncoding     the database can't hold all text
             StoreUnavailable  no answer in time
    """
    async with session.connection() as connection:
        await _require_utf8(connection)
        present = await connection.fetchval("select to_regclass('shardclock.migrations') is not null")
        applied = await _applied(connection) if present else {}
    if _missing(applied):
        have, need = max(applied, default=0), migrations()[-1].version
        raise WrongSchema(
            f"the database's schema is at version {have}, this program needs {need}: run `shardclock migrate`"
        )


async def _require_utf8(connection: Connection) -> None:
    row = await connection.fetchrow(_ENCODING)
    assert row is not None
    name, encoding = row
    if encoding != "UTF8":
        raise WrongEncoding(_NEEDS_UTF8 % (name, encoding))


async def _applied(connection: Connection) -> dict[int, str]:
    rows = await connection.fetch("select version, checksum from shardclock.migrations")
    return {row["version"]: row["checksum"] for row in rows}


def _missing(applied: dict[int, str]) -> list[Migration]:
    for step in migrations():
        if applied.get(step.version, step.checksum) != step.checksum:
            raise WrongSchema(
                f"migration {step.name} was applied with another text than this program carries: "
                "install the release that applied it, or restore the file"
            )
    return [step for step in migrations() if step.version not in applied]
