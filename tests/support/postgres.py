"""Give each test its own migrated database, on a real Postgres, in a few hundredths of a second."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from shardclock_server.embedded.server import EmbeddedPostgres
from tests.support import connections
from tests.support.memory import IN_MEMORY
from tests.support.roles import migrate_with_roles

TEMPLATE = "tmpl"
CATALOGS = """
    select string_agg(oid::regclass::text, ', ') from pg_class
    where relnamespace = 'pg_catalog'::regnamespace and relkind = 'r' and not relisshared
"""


def _today() -> date:
    return datetime.now(UTC).date()


def _name_in(dsn: str) -> str:
    return dsn.partition("?")[0].rpartition("/")[2]


async def _fill(dsn: str) -> None:
    """Migrate the template, and remove the dead rows of its catalogs, because each clone copies all files."""
    await migrate_with_roles(dsn, wall=True)
    ((catalogs,),) = await connections.fetch(dsn, CATALOGS)
    await connections.fetch(dsn, f"vacuum (full) {catalogs}")
    await connections.fetch(dsn, "select 1")  # the first session afterwards writes the cache file of the catalogs
    connections.close_those_to(dsn)  # an open connection prevents a clone of the database


class Server:
    """Run one server for the test session, and clone its migrated template."""

    def __init__(self, version: int) -> None:
        self._version = version
        # The directory is not in pytest's tmp_path, because another pytest session would remove the server user's
        # access to the parent directories.
        self._drops: list[Future[None]] = []
        self._data_dir = Path(tempfile.mkdtemp(prefix="shardclock-test-", dir=IN_MEMORY))
        try:
            self._server = EmbeddedPostgres.start(self._data_dir, version=version)
            self._configure()
            with ThreadPoolExecutor(1) as thread:  # the test that needs the fixture may have a running event loop
                thread.submit(asyncio.run, _fill(self._dsn(TEMPLATE))).result()
            self._day = _today()  # the tests of the log's days would notice a midnight during the migration
        except BaseException:
            self.close()
            raise

    @contextmanager
    def database(
        self, fill: Callable[[str], Coroutine[Any, Any, None]] | None = None, *, of: str | None = None
    ) -> Iterator[str]:
        """Make a clone, fill it, and drop it at the end."""
        dsn = self.clone(of)
        try:
            if fill is not None:
                asyncio.run(fill(dsn))
            yield dsn
        finally:
            self.drop(dsn)

    def clone(self, of: str | None = None) -> str:
        """Make a migrated database, or a copy of a database that tests have filled, and return its DSN."""
        self._server.restart_if_dead()  # a test may have killed the server
        self._turn_day()
        if of is not None:
            connections.close_those_to(of)  # an open connection prevents a clone of the database
        name, template = f"t_{uuid4().hex}", TEMPLATE if of is None else _name_in(of)
        self._execute(f"create database {name} template {template} strategy file_copy")
        wait(
            self._drops
        )  # without this wait, sessions of the last test might still end while this test counts sessions
        self._drops.clear()
        return self._dsn(name)

    def drop(self, dsn: str) -> None:
        """Drop a clone, even with open connections, while the next clone is made."""
        self._server.restart_if_dead()
        connections.close_those_to(dsn)
        self._drops.append(connections.start(self._server.dsn, f"drop database {_name_in(dsn)} with (force)"))

    def close(self) -> None:
        """Stop the server and remove its files."""
        wait(self._drops)
        if hasattr(self, "_server"):
            self._server.close()
        shutil.rmtree(self._data_dir)

    def _configure(self) -> None:
        # These settings need a restart. wal_level: a logical slot gives the commit order. fsync and whole pages in the
        # WAL protect only against the loss of a machine, which no test causes. Without them, kill -9 of Postgres loses
        # nothing, and a new database costs half.
        self._execute(
            "alter system set wal_level = 'logical'",
            "alter system set max_prepared_transactions = 4",
            "alter system set fsync = off",
            "alter system set full_page_writes = off",
        )
        self._server.close()
        self._server = EmbeddedPostgres.start(self._data_dir, version=self._version)
        self._execute(f"create database {TEMPLATE}")

    def _turn_day(self) -> None:
        """After midnight, give the template the partitions of a new database."""
        if self._day == _today():
            return
        statements = (
            f"drop table shardclock.command_log_{self._day:%Y%m%d}",
            "select shardclock.ensure_log_partitions()",
        )
        connections.start(self._dsn(TEMPLATE), *statements).result()
        connections.close_those_to(self._dsn(TEMPLATE))  # an open connection prevents a clone of the database
        self._day = _today()

    def _dsn(self, database: str) -> str:
        return self._server.dsn.replace("/postgres?", f"/{database}?", 1)

    def _execute(self, *statements: str) -> None:
        connections.start(self._server.dsn, *statements).result()
