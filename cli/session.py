"""The database session of a client command."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

from shardclock_server.cli.output import print_note
from shardclock_server.cli.recording import is_recorded, recorded
from shardclock_server.cluster.database import open_database, require_data
from shardclock_server.cluster.settings import load_settings
from shardclock_server.sql.deliveries.notifications import notify_of_signals
from shardclock_server.sql.dsn import Dsn
from shardclock_server.sql.migrate import require_current
from shardclock_server.sql.session import Session, StoreUnavailable

T = TypeVar("T")

TIMEOUT_S = 30.0  # The longest wait for each answer of Postgres.
SILENT_S = 3.0  # The time without a first answer after which the command prints a note.


def with_session(
    work: Callable[[Session], Awaitable[T]],
    *,
    plans: dict[str, str] | None = None,
    is_read_only: bool = False,
    makes_database: bool = False,
) -> T:
    """Open the configured database, check its schema, and run a command's work; `plans` are planner settings.

    The audit records the work of each command that `recording` lists, unless `is_read_only` is set (for a query before
    the change). A missing embedded database is created for an audited command or with `makes_database`; otherwise the
    command is refused.

    errors:  Refusal  the data directory has no database, and the command must not create a database
    """

    async def do(dsn: Dsn) -> T:
        async with Session(dsn, application="shardclock", timeout_s=TIMEOUT_S, plans=plans) as session:
            with _warn_if_silent(database.place):
                await require_current(session)
            return await work(session) if is_read_only else await recorded(session, work)

    settings = load_settings()
    if not (makes_database or is_recorded()):
        require_data(settings)
    with open_database(settings) as database:
        if database.is_new:
            print_note(
                f"shardclock: {database.place} is new; SHARDCLOCK_DSN or SHARDCLOCK_DATA_DIR names another database"
            )
        return asyncio.run(do(database.dsn))


@contextmanager
def _warn_if_silent(place: str) -> Iterator[None]:
    message = f"shardclock: {place} has not answered for {SILENT_S:g} s; the command waits up to {TIMEOUT_S:g} s"
    warning = asyncio.get_running_loop().call_later(SILENT_S, print_note, message)
    try:
        yield
    finally:
        warning.cancel()


def with_notification(work: Callable[[Session], Awaitable[T]]) -> T:
    """Run the work of a command that sends signals to instances, and then notify the engines."""

    async def do(session: Session) -> T:
        done = await work(session)
        await notify_engines(session)
        return done

    return with_session(do)


async def notify_engines(session: Session) -> None:
    """Notify engines of new signals; without the notification, an idle engine finds a signal up to 0.2 s later."""
    with suppress(StoreUnavailable):  # The signals are stored, and an engine's poll finds them.
        await notify_of_signals(session)
