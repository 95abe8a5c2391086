"""Run one Postgres for all contenders, so that they are comparable, with an empty database for each contender."""

import asyncio
import contextlib
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import asyncpg

from shardclock_server.cluster.database import Database
from shardclock_server.embedded.server import EmbeddedPostgres
from shardclock_server.sql.dsn import Dsn
from shardclock_server.sql.session import Connection

PREFIX = "shardclock_bench_"
# A new server fills each new file of the write-ahead log with zeros while all sessions wait: 60 ms for each 16 MB on
# this machine. Later the server reuses old files without this cost.
WARM = "select count(pg_logical_emit_message(false, 'warm', repeat('x', 1000000))) from generate_series(1, 1000)"
COMMITTED = "select pg_logical_emit_message(true, 'commit', '')"
HOLDS = """
    select n.nspname || '.' || c.relname
    from pg_class c
    join pg_namespace n on n.oid = c.relnamespace
    where n.nspname not in ('pg_catalog', 'information_schema') and n.nspname !~ '^pg_' and c.relkind in ('r', 'p')
    limit 1
"""


class Unusable(Exception):
    """The given database can't be used for a benchmark; the message has the reason and the remedy."""


class NotEmpty(Unusable):
    """The given database is not empty."""


class Server:
    """Create empty databases on one server, each for one use."""

    def __init__(self, dsn: str, about: str = "") -> None:
        self.dsn = dsn
        self.about = about

    @contextlib.asynccontextmanager
    async def database(self) -> AsyncIterator[str]:
        """Create an empty database; drop it after use."""
        name = f"{PREFIX}{uuid4().hex[:12]}"
        try:
            try:
                await self._execute(f"create database {name}")
            except asyncpg.InsufficientPrivilegeError as error:
                raise Unusable(
                    f"{error}: a benchmark creates a database for each contender; use a role with CREATEDB"
                ) from None
            yield _named(self.dsn, name)
        finally:
            await self._execute(f"drop database if exists {name} with (force)")

    async def version(self) -> str:
        """Return Postgres's version."""
        async with connected(self.dsn) as connection:
            return str(await connection.fetchval("show server_version"))

    async def commits(self) -> Sequence[float]:
        """Measure the durations of a thousand small commits; a firing takes at least the time of a commit."""
        async with connected(self.dsn) as connection:
            began_s = [time.perf_counter()]
            for _ in range(1_000):
                await connection.execute(COMMITTED)
                began_s.append(time.perf_counter())
        return [later - earlier for earlier, later in pairwise(began_s)]

    async def require_empty(self) -> None:
        """Raise an error if a database has tables.

        errors:  NotEmpty  the message names one of the tables
                 Unusable  the server doesn't answer
        """
        async with connected(self.dsn) as connection:
            table = await connection.fetchval(HOLDS)
        if table is not None:
            name = urlsplit(self.dsn).path.lstrip("/")
            raise NotEmpty(f"the database {name!r} has the table {table}: a benchmark needs an empty database")

    async def _execute(self, statement: str) -> None:
        async with connected(self.dsn) as connection:
            await connection.execute(statement)


@contextlib.contextmanager
def server(dsn: str | None) -> Iterator[Server]:
    """Use the given server, or start a temporary server."""
    if dsn is not None:
        yield Server(dsn)
        return
    place = Path(tempfile.mkdtemp(prefix="shardclock-bench-"))
    try:
        postgres = EmbeddedPostgres.start(place / "postgres")
        try:
            asyncio.run(_warm(postgres.dsn))
            yield Server(postgres.dsn, ", on a warm server")
        finally:
            postgres.close()
    finally:
        shutil.rmtree(place, ignore_errors=True)


@contextlib.asynccontextmanager
async def connected(dsn: str) -> AsyncIterator[Connection]:
    """Connect during a block.

    errors:  Unusable  the server does not answer; the message has its name and the reason
    """
    try:
        connection = await asyncpg.connect(dsn)
    except (OSError, ValueError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
        raise Unusable(
            f"{Database(Dsn(dsn)).place} can't be used: {error}; give another DSN with --dsn, or none"
        ) from None
    try:
        yield connection
    finally:
        await connection.close()


async def settle(dsn: str) -> None:
    """Vacuum, analyze and checkpoint now, as Postgres does automatically some minutes after many inserts."""
    async with connected(dsn) as connection:
        await connection.execute("vacuum (analyze)")
        with contextlib.suppress(
            asyncpg.InsufficientPrivilegeError
        ):  # if the user may not checkpoint, Postgres checkpoints later
            await connection.execute("checkpoint")


async def _warm(dsn: str) -> None:
    async with connected(dsn) as connection:
        await connection.execute(WARM)
        await connection.execute("checkpoint")


def _named(dsn: str, database: str) -> str:
    return urlunsplit(urlsplit(dsn)._replace(path=f"/{database}"))
