"""The database session of a client command."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from cluster.database import open_database
from cluster.settings import load_settings
from sql.dsn import Dsn
from sql.migrate import require_current
from sql.session import Session

T = TypeVar("T")


def with_session(work: Callable[[Session], Awaitable[T]], *, plans: dict[str, str] | None = None) -> T:
    """Check the schema of the settings' database, then do a command's work on it, with these planner settings."""

    async def do(dsn: Dsn) -> T:
        async with Session(dsn, application="shardclock", timeout_s=30.0, plans=plans) as session:
            await require_current(session)
            return await work(session)

    with open_database(load_settings()) as database:
        return asyncio.run(do(database.dsn))
