"""The database session of a client command."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

from shardclock_server.cli.output import tell
from shardclock_server.cli.recording import recorded
from shardclock_server.cluster.database import open_database
from shardclock_server.cluster.settings import load_settings
from shardclock_server.sql.deliveries.hints import send_signal_hint
from shardclock_server.sql.dsn import Dsn
from shardclock_server.sql.migrate import require_current
from shardclock_server.sql.session import Session, StoreUnavailable

T = TypeVar("T")

TIMEOUT_S = 30.0  # for any answer of Postgres
SILENT_S = 3.0  # without a first answer: then somebody who waits is told


def with_session(
    work: Callable[[Session], Awaitable[T]], *, plans: dict[str, str] | None = None, is_look: bool = False
) -> T:
    """Check the schema of the settings' database, then do a command's work on it, with these planner settings.

    What a verb of an operator does is recorded in the audit, unless it `is_look`: it only looks before it acts.
    """

    async def do(dsn: Dsn) -> T:
        async with Session(dsn, application="shardclock", timeout_s=TIMEOUT_S, plans=plans) as session:
            with _told_if_silent(database.place):
                await require_current(session)
            return await work(session) if is_look else await recorded(session, work)

    with open_database(load_settings()) as database:
        if database.is_new:
            tell(f"shardclock: {database.place} is new; SHARDCLOCK_DSN or SHARDCLOCK_DATA_DIR names another database")
        return asyncio.run(do(database.dsn))


@contextmanager
def _told_if_silent(place: str) -> Iterator[None]:
    said = f"shardclock: {place} has not answered for {SILENT_S:g} s; this waits {TIMEOUT_S:g} s in all"
    telling = asyncio.get_running_loop().call_later(SILENT_S, tell, said)
    try:
        yield
    finally:
        telling.cancel()


def with_signals(work: Callable[[Session], Awaitable[T]]) -> T:
    """Do a command's work that sends signals to instances, and tell engines."""

    async def do(session: Session) -> T:
        done = await work(session)
        await tell_engines(session)
        return done

    return with_session(do)


async def tell_engines(session: Session) -> None:
    """Tell engines that there are signals: an idle one would look 0.2 s later."""
    with suppress(StoreUnavailable):  # what was sent is there all the same
        await send_signal_hint(session)
