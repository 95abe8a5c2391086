"""One Postgres for a whole run, so that all are measured on the same; an empty database of its own for each."""

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

from cluster.database import Database
from cluster.embedded import EmbeddedPostgres
from sql.session import Connection

PREFIX = "shardclock_bench_"
# A new server zeroes each file of its log before it first writes to it, and everybody waits: 60 ms for each 16 MB here.
# One that has been at work for a while uses them again.
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
    """The database that was named can't be measured on; the message says why, and the way out."""


class NotEmpty(Unusable):
    """It holds something."""


class Server:
    """Lend empty databases on one server."""

    def __init__(self, dsn: str, about: str = "") -> None:
        self.dsn = dsn
        self.about = about

    @contextlib.asynccontextmanager
    async def database(self) -> AsyncIterator[str]:
        """Lend a database that holds nothing; it is dropped after use."""
        name = f"{PREFIX}{uuid4().hex[:12]}"
        try:
            try:
                await self._execute(f"create database {name}")
            except asyncpg.InsufficientPrivilegeError as error:
                raise Unusable(f"{error}: each contender gets one of its own; name a role that may") from None
            yield _named(self.dsn, name)
        finally:
            await self._execute(f"drop database if exists {name} with (force)")

    async def version(self) -> str:
        """Tell Postgres's version."""
        async with connected(self.dsn) as connection:
            return str(await connection.fetchval("show server_version"))

    async def commits(self) -> Sequence[float]:
        """Time a thousand small commits, one after the other: a firing can't be quicker than its disk; in seconds."""
        async with connected(self.dsn) as connection:
            began_s = [time.perf_counter()]
            for _ in range(1_000):
                await connection.execute(COMMITTED)
                began_s.append(time.perf_counter())
        return [later - earlier for earlier, later in pairwise(began_s)]

    async def require_empty(self) -> None:
        """Refuse a database that is used for anything.

        errors:  NotEmpty  names a table that it holds
                 Unusable  it doesn't answer
        """
        async with connected(self.dsn) as connection:
            table = await connection.fetchval(HOLDS)
        if table is not None:
            name = urlsplit(self.dsn).path.lstrip("/")
            raise NotEmpty(f"the database {name!r} holds {table}: a benchmark runs on an empty one only; name another")

    async def _execute(self, statement: str) -> None:
        async with connected(self.dsn) as connection:
            await connection.execute(statement)


@contextlib.contextmanager
def server(dsn: str | None) -> Iterator[Server]:
    """Use the server that is named, or start one that is gone after use."""
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
    """Connect, and close when it is used no more.

    errors:  Unusable  says who doesn't answer, and what stands in the way
    """
    try:
        connection = await asyncpg.connect(dsn)
    except (OSError, ValueError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise Unusable(f"{Database(dsn).place} can't be used: {error}; name another with --dsn, or none") from None
    try:
        yield connection
    finally:
        await connection.close()


async def settle(dsn: str) -> None:
    """Do now what Postgres would do in the minute after many rows came in: vacuum, analyze, and write them to disk."""
    async with connected(dsn) as connection:
        await connection.execute("vacuum (analyze)")
        with contextlib.suppress(asyncpg.InsufficientPrivilegeError):  # then it comes when it comes
            await connection.execute("checkpoint")


async def _warm(dsn: str) -> None:
    async with connected(dsn) as connection:
        await connection.execute(WARM)
        await connection.execute("checkpoint")


def _named(dsn: str, database: str) -> str:
    return urlunsplit(urlsplit(dsn)._replace(path=f"/{database}"))
