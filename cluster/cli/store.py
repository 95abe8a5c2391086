"""The session that a client command works with."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from cluster.database import open_database
from cluster.settings import load_settings
from sql.migrate import require_current
from sql.session import Session

T = TypeVar("T")


def with_session(work: Callable[[Session], Awaitable[T]]) -> T:
    """Do a command's work on the database that the settings name, once its schema has been checked."""

    async def do(dsn: str) -> T:
        async with Session(dsn, application="shardclock", timeout_s=30.0) as session:
            await require_current(session)
            return await work(session)

    with open_database(load_settings()) as database:
        return asyncio.run(do(database.dsn))
