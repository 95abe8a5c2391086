"""The schema, brought up to date or held against what this program needs.

Migrations go forward only and are never edited once released: each is recorded with the checksum of its text. All
that are missing are applied in one transaction under an advisory lock, so two processes that start together do the
work once, and a failure leaves the database as it was.
"""

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from sql.session import Connection, Session

MIGRATE_S = 300.0  # a later migration may have much to rewrite

_BOOKKEEPING = """\
create schema if not exists shardclock;
create table if not exists shardclock.migrations (
    version integer not null primary key,
    name text not null,
    checksum text not null,
    applied_at timestamptz not null default now()
);
"""
_LOCK = "select pg_advisory_xact_lock(hashtext('shardclock.migrate'))"
_RECORD = "insert into shardclock.migrations (version, name, checksum) values"


class WrongSchema(Exception):
    """The database's schema is not the one that this program needs; the message says how to mend it."""


@dataclass(frozen=True)
class Migration:
    """One numbered step of the schema."""

    version: int
    name: str
    text: str

    @property
    def checksum(self) -> str:
        """Digest the text, so that an edit after the fact is found."""
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


async def migrate(dsn: str) -> list[str]:
    """Apply the migrations that the database lacks.

    shape:   the names of those applied, in order; empty if there was nothing to do
    errors:  WrongSchema       a migration was edited after it had been applied
             StoreUnavailable  no answer: nothing, or everything, was applied; call again
    """
    async with (
        Session(dsn, application="shardclock migrate", timeout_s=MIGRATE_S) as session,
        session.transaction() as connection,
    ):
        await connection.execute(_LOCK)
        await connection.execute(_BOOKKEEPING)
        missing = _missing(await _applied(connection))
        for step in missing:
            await connection.execute(step.text)
            await connection.execute(f"{_RECORD} ($1, $2, $3)", step.version, step.name, step.checksum)
    return [step.name for step in missing]


def as_script() -> str:
    """Give all migrations as one SQL script, for a DBA who applies them by hand to an empty database."""
    steps = (
        f"-- {step.name}\n{step.text}\n{_RECORD} ({step.version}, '{step.name}', '{step.checksum}');\n"
        for step in migrations()
    )
    return "\n".join(["begin;", _LOCK + ";", _BOOKKEEPING, *steps, "commit;"])


async def require_current(session: Session) -> None:
    """Refuse to work on a schema that is older than this program.

    A newer one is welcome: migrations keep the previous release running, so that an upgrade can overlap it.

    errors:  WrongSchema       too old, absent, or edited: the message names the command that mends it
             StoreUnavailable  no answer in time
    """
    async with session.connection() as connection:
        present = await connection.fetchval("select to_regclass('shardclock.migrations') is not null")
        applied = await _applied(connection) if present else {}
    if _missing(applied):
        have, need = max(applied, default=0), migrations()[-1].version
        raise WrongSchema(
            f"the database's schema is at version {have}, this program needs {need}: run `shardclock migrate`"
        )


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
