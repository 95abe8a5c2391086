"""Open the database that a command uses: the database that the settings name, or the embedded database."""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count

from shardclock.backoff import Backoff
from shardclock_server.cluster.settings import Settings
from shardclock_server.embedded.server import EmbeddedPostgres
from shardclock_server.sql.clock.moved import require_real_clock
from shardclock_server.sql.cluster.rights import require_rights
from shardclock_server.sql.dsn import Dsn
from shardclock_server.sql.migrate import migrate, require_current
from shardclock_server.sql.scripts import steps
from shardclock_server.sql.session import Session, StoreUnavailable
from shardclock_server.timers.refusal import Refusal

RETRY = Backoff(0.2, 5.0)
MIGRATE_TRIES = 4  # an embedded server that restarts answers after a second, unless its recovery is long


class Database:
    """A database with its DSN; an embedded database runs until `close`."""

    def __init__(self, dsn: Dsn, embedded: EmbeddedPostgres | None = None, *, is_new: bool = False) -> None:
        self.dsn = dsn
        self.is_new = is_new  # this process has just created the database
        self._embedded = embedded

    @property
    def is_embedded(self) -> bool:
        """Return whether the database is embedded."""
        return self._embedded is not None

    @property
    def is_there(self) -> bool:
        """Return whether the embedded database runs; for a named database, return True without a check."""
        return self._embedded is None or self._embedded.is_running()

    @property
    def place(self) -> str:
        """Describe the database for people, without a password."""
        if self._embedded is not None:
            return f"the embedded Postgres at {self._embedded.data_dir}"
        return f"Postgres at {self.dsn.place}"

    def restart_if_dead(self) -> bool:
        """Start the embedded server again if it has died; return whether it was started.

        errors:  EmbeddedPostgresError  the server doesn't start again
        """
        return self._embedded.restart_if_dead() if self._embedded is not None else False


def named(settings: Settings) -> Database:
    """Return the database that the settings name. The database is neither started nor opened."""
    dsn = settings.find_dsn()
    if dsn is not None:
        return Database(dsn)
    embedded = EmbeddedPostgres.at(settings.data_dir, version=settings.postgres_version)
    return Database(Dsn(embedded.dsn), embedded)


def has_data(settings: Settings) -> bool:
    """Return whether the settings name a database, or the directory of the embedded Postgres contains data."""
    return settings.find_dsn() is not None or (settings.data_dir / "pgdata").exists()


def require_data(settings: Settings) -> None:
    """Check that the settings name an existing database.

    errors:  Refusal  the directory of the embedded Postgres contains no database
    """
    if not has_data(settings):
        raise Refusal(
            f"{settings.data_dir} holds no database: `shardclock up` makes one; SHARDCLOCK_DSN or SHARDCLOCK_DATA_DIR"
            " names another"
        )


@contextmanager
def open_database(settings: Settings, *, migrates: bool = True) -> Iterator[Database]:
    """Return the database that the settings name. Start an embedded database, and migrate it if `migrates` is true.

    errors:  EmbeddedPostgresError  the database can't be started
    """
    dsn = settings.find_dsn()
    if dsn is not None:
        yield Database(dsn)
        return
    embedded = EmbeddedPostgres.start(settings.data_dir, version=settings.postgres_version)
    try:
        # No operator manages the embedded database, so its schema is migrated here.
        applied = _migrate(embedded) if migrates else ()
        yield Database(Dsn(embedded.dsn), embedded, is_new=applied[:1] == (steps()[0].name,))
    finally:
        embedded.close()


def _migrate(embedded: EmbeddedPostgres) -> Sequence[str]:
    """Migrate the database; if its server dies or is restarted during the migration, migrate again.

    errors:  StoreUnavailable  no answer at any of the `MIGRATE_TRIES` attempts
    """
    for failures in range(1, MIGRATE_TRIES):
        with suppress(StoreUnavailable):
            return asyncio.run(migrate(embedded.dsn)).steps
        time.sleep(RETRY.pause_s(failures))
        embedded.restart_if_dead()
    return asyncio.run(migrate(embedded.dsn)).steps


async def wait_until_ready(database: Database, *, tell: Callable[[str], None]) -> None:
    """Wait for Postgres, tell the user about a long wait, and check the schema and the rights of the database role.

    If the server of an embedded database has died, the function starts it again.

    errors:  EmbeddedPostgresError  the embedded server doesn't start again
             WrongSchema  the message names the command that repairs the schema, or says that a test sets the database's
                          clock.
             LacksRights  the message names the missing right.
    """
    async with Session(database.dsn, application="shardclock up") as session:
        for failures in count(1):
            try:
                await require_real_clock(session)
                await require_rights(session)
                await require_current(session)
            except StoreUnavailable as error:
                pause_s = RETRY.pause_s(failures)
                tell(f"{database.place} does not answer ({error}); trying again in {pause_s:.1f} s")
                await asyncio.sleep(pause_s)
                await asyncio.to_thread(database.restart_if_dead)
            else:
                return
