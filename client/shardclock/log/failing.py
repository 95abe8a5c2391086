"""How a consumer's work can fail, and which errors of a driver pass by themselves."""

import re
import socket
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from shardclock.log.place import PartitionPlace
from shardclock.log.record import LogRecord

# Errors that pass: connections that are lost (08), rolled back (40), out of resources (53), stopped by an operator
# (57), a lock or an idle transaction that took too long, and a server that became a replica.
PASSING = ("08", "40", "53", "57", "55P03", "25P03", "25P04", "25006")
# These end one statement, and its connection is as good as before.
OF_STATEMENT = ("40", "55P03", "57014")
# Of both drivers and of SQLAlchemy, without a SQLSTATE: the connection can't be used any more, or could not be opened.
OF_CONNECTION = {"OperationalError", "InterfaceError", "InternalClientError"}
# Sentences with which Postgres refuses a login. A driver on libpq has no SQLSTATE of a connection that failed.
REFUSED_LOGIN = re.compile(
    r"password authentication failed for user|no pg_hba\.conf entry for|pg_hba\.conf rejects connection"
    r'|(role|database) ".*" does not exist|role ".*" is not permitted to log in'
)


class GroupDiffers(Exception):
    """The group does not have the number of partitions that its member asked for."""


class GroupDropped(Exception):
    """The group was dropped while a member was working for it."""


class LeaseLost(Exception):
    """The lease ran out, and another member may be working on the batch: stop."""


class PoolerInBetween(Exception):
    """A connection pooler answers instead of Postgres: it would lend the consumer's settings to others."""


class ConnectionLost(Exception):
    """The connection was lost during the work, and so was Postgres: the work is not at fault."""


class WorkLost(Exception):
    """The connection was lost during the work, although Postgres itself kept running."""


class WorkTooSlow(Exception):
    """The work took longer than a transaction may take."""


class TransactionEnded(Exception):
    """The work committed or rolled back the transaction that it was given, which only we may end."""


class WorkCancelled(Exception):
    """A task that the work awaits was cancelled, and the work did not catch that."""

    def __init__(self) -> None:
        super().__init__(
            "the work let out a CancelledError, and nobody asked it to stop: a task that it awaits was cancelled"
        )


class WorkFailed(Exception):
    """Carries the error of a consumer's work, and the records it was on, out of the transaction that must be undone."""

    def __init__(self, place: PartitionPlace, records: Sequence[LogRecord], error: Exception) -> None:
        super().__init__(error)
        self.place, self.records, self.error = place, records, error


class Attempt(NamedTuple):
    """How some work ended: the error that it raised, or None, and whether it took too long."""

    error: Exception | None
    is_late: bool


def told(error: BaseException) -> str:
    """Describe an error in a text that Postgres can store and a terminal can show, whatever the error's own text is."""
    try:
        text = str(error)
    except Exception as trouble:  # noqa: BLE001 - an error of the work's own may do anything when asked
        text = f"(its text can't be had: {type(trouble).__name__})"
    text = f"{type(error).__name__}: {text}".replace("\0", r"\x00")
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def is_passing(error: BaseException) -> bool:
    """Say whether the same call may succeed on a new connection; any other error is the call's fault."""
    if isinstance(error, ConnectionLost):
        return True
    if sqlstate := sqlstate_of(error):
        return sqlstate.startswith(PASSING)
    if isinstance(error, ValueError) or is_refused_login(error):
        return False  # a ValueError is asyncpg's: a value or a DSN that can't be
    return isinstance(error, OSError) or any(kind.__name__ in OF_CONNECTION for kind in type(error).__mro__)


def spares_connection(error: BaseException) -> bool:
    """Say whether the connection on which an error came is as good as before; after a cancellation it is not."""
    if not isinstance(error, Exception) or isinstance(error, TimeoutError):
        return False
    return not is_passing(error) or sqlstate_of(error).startswith(OF_STATEMENT)


def is_refused_login(error: BaseException) -> bool:
    """Say whether libpq could not connect because Postgres refused the login, if Postgres says so in English."""
    failed = ((it, getattr(it, "pgconn", None)) for it in _causes_of(error))
    return any(conn and (conn.needs_password or REFUSED_LOGIN.search(str(it))) for it, conn in failed)


def is_unknown_host(error: BaseException) -> bool:
    """Say whether a connection could not be opened because the name of its host leads nowhere."""
    return any(isinstance(it, socket.gaierror) for it in _causes_of(error))


def sqlstate_of(error: BaseException) -> str:
    """Return the SQLSTATE that an error brings; SQLAlchemy puts an error of its own around the driver's."""
    states = (getattr(it, "sqlstate", None) or getattr(it, "pgcode", None) for it in _causes_of(error))
    return next(filter(None, states), "")


def _causes_of(error: BaseException) -> Iterator[BaseException]:
    left: list[BaseException | None] = [error]
    while left:
        it = left.pop()
        if it is not None:
            yield it
            left += [it.__cause__, getattr(it, "orig", None)]
