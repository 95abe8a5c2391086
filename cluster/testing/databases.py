"""Lend each test a database: a copy of a migrated template, in a Postgres server that this process has started.

There is one template for each day on which a test's clock starts, because the creation of the log's daily partitions is
slow.
"""

import asyncio
import atexit
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from uuid import uuid4

from shardclock_server.cluster.scratch import Scratch, left_behind, remove_abandoned
from shardclock_server.embedded.memory import find_memory
from shardclock_server.embedded.server import EmbeddedPostgres
from shardclock_server.sql.clock.moved import install, move
from shardclock_server.sql.copies import create_database, drop_database, forgo_safety
from shardclock_server.sql.log.partitions import ensure_log_partitions
from shardclock_server.sql.migrate import migrate
from shardclock_server.sql.session import Session

# the `kind` of the temporary directories, and the name of the data directory in each of them
KIND, DATA = "testing", "data"
TEMPLATE = "template_of_tests"
# The maximum number of templates (8 MiB each). A test that needs one more template creates the log's partitions itself.
DAYS_MAX = 20
# The timeout is long, because a copy waits for two checkpoints, and the machine may be busy with other tests.
TIMEOUT_S = 60.0


class Databases:
    """Run a Postgres server with migrated templates and a movable clock, and lend copies of the templates."""

    def __init__(self) -> None:
        stop_abandoned()
        self._templates: set[str] = set()
        self._one_by_one = threading.Lock()
        self._scratch = Scratch.make(KIND, place=find_memory())
        self._server: EmbeddedPostgres | None = None
        try:
            self._server = EmbeddedPostgres.start(self._scratch.path / DATA)
            self._admin_dsn = self._server.dsn
            asyncio.run(self._make_template())
        except BaseException:
            self.close()
            raise

    @asynccontextmanager
    async def lend(self, now: datetime) -> AsyncIterator[str]:
        """Lend a database during a block; the database's clock shows the given moment.

        errors:  StoreUnavailable  Postgres does not answer: it was killed, or the machine is out of memory or disk
        """
        name = f"test_{uuid4().hex}"
        async with self._admin() as admin:
            template = await asyncio.to_thread(self._template_of, now)
            await create_database(admin, name, template=template)
        try:
            await self._begin(name, now)
            yield self._dsn_of(name)
        finally:
            async with self._admin() as admin:
                await drop_database(admin, name)

    def close(self) -> None:
        """Stop the server, and remove its files."""
        if self._server is not None:
            self._server.close()
        self._scratch.remove()

    async def _make_template(self) -> None:
        async with self._admin() as admin:
            await forgo_safety(admin)
            await create_database(admin, TEMPLATE)
        dsn = self._dsn_of(TEMPLATE)
        async with Session(dsn, application="shardclock testing", timeout_s=TIMEOUT_S) as session:
            await install(session)
        await migrate(dsn)

    def _template_of(self, now: datetime) -> str:
        """Return the name of a day's template; the first call creates the template."""
        name = f"{TEMPLATE}_{now:%Y%m%d}"
        with self._one_by_one:
            if name not in self._templates:
                if len(self._templates) == DAYS_MAX:
                    return TEMPLATE
                asyncio.run(self._make_day(name, now))
                self._templates.add(name)
        return name

    async def _make_day(self, name: str, now: datetime) -> None:
        async with self._admin() as admin:
            await drop_database(admin, name)  # an earlier attempt may have left an incomplete template
            await create_database(admin, name, template=TEMPLATE)
        await self._begin(name, now)

    async def _begin(self, name: str, now: datetime) -> None:
        async with Session(self._dsn_of(name), application="shardclock testing", timeout_s=TIMEOUT_S) as session:
            await move(session, now)
            await ensure_log_partitions(session)

    def _admin(self) -> Session:
        return Session(self._admin_dsn, application="shardclock testing", timeout_s=TIMEOUT_S)

    def _dsn_of(self, name: str) -> str:
        return self._admin_dsn.replace("/postgres?", f"/{name}?", 1)


def stop_abandoned() -> None:
    """Stop the servers of killed processes, and remove their files."""
    with left_behind(KIND) as paths:
        for path in paths:
            if EmbeddedPostgres.at(path / DATA).is_running():
                EmbeddedPostgres.start(path / DATA).close()  # the server stops when its last user closes it
    remove_abandoned()


_lock = threading.Lock()
_databases: list[Databases] = []


async def databases() -> Databases:
    """Return the databases of this process; the first call creates them, in about a second.

    errors:  EmbeddedPostgresError  Postgres can't be started here; the message explains why
    """
    return await asyncio.to_thread(_made)  # the start of a server waits for other processes


def _made() -> Databases:
    with _lock:
        if not _databases:
            _databases.append(Databases())
            atexit.register(_databases[0].close)
        return _databases[0]
