"""The database that a command works with: the one that is named, or the embedded one."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from cluster.embedded import EmbeddedPostgres
from cluster.settings import Settings
from sql.migrate import migrate, require_current
from sql.session import Session, StoreUnavailable

RETRY_MIN_S = 0.2
RETRY_MAX_S = 5.0


class Database:
    """Know a database's DSN, and tend it if it is ours."""

    def __init__(self, dsn: str, embedded: EmbeddedPostgres | None = None) -> None:
        self.dsn = dsn
        self._embedded = embedded

    @property
    def is_embedded(self) -> bool:
        """Say whether it is ours."""
        return self._embedded is not None

    @property
    def place(self) -> str:
        """Name it for people, without a password."""
        if self._embedded is not None:
            return "the embedded Postgres"
        parts = urlsplit(self.dsn)
        return f"Postgres at {parts.hostname or 'a local socket'}{f':{parts.port}' if parts.port else ''}"

    def restart_if_dead(self) -> bool:
        """Start the embedded server again if it has died, and say whether that was needed.

        errors:  EmbeddedPostgresError  it doesn't come up again
        """
        return self._embedded.restart_if_dead() if self._embedded is not None else False


@contextmanager
def open_database(settings: Settings) -> Iterator[Database]:
    """Name the database, with the embedded one started and migrated.

    errors:  EmbeddedPostgresError  it can't be started
    """
    if settings.dsn is not None:
        yield Database(settings.dsn)
        return
    embedded = EmbeddedPostgres.start(settings.data_dir, version=settings.postgres_version)
    try:
        # Ours alone: nobody else decides when its schema changes.
        asyncio.run(migrate(embedded.dsn))
        yield Database(embedded.dsn, embedded)
    finally:
        embedded.close()


async def wait_until_ready(database: Database, *, tell: Callable[[str], None]) -> None:
    """Wait for Postgres, saying so, and hold its schema against what this program needs.

    errors:  WrongSchema  names the command that mends it
    """
    pause_s = RETRY_MIN_S
    async with Session(database.dsn, application="shardclock up") as session:
        while True:
            try:
                await require_current(session)
            except StoreUnavailable as error:
                tell(f"{database.place} does not answer ({error}); trying again in {pause_s:.1f} s")
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, RETRY_MAX_S)
            else:
                return
