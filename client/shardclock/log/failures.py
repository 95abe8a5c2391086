"""The failures of a consumer's work, and the temporary errors of a driver."""

import re
import socket
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from shardclock.log.partition import PartitionState
from shardclock.log.record import LogRecord

# Temporary errors: lost connections (08), rollbacks (40), a lack of resources (53), a shutdown by an operator (57), a
# lock or an idle transaction that took too long, and a server that became a replica.
PASSING = ("08", "40", "53", "57", "55P03", "25P03", "25P04", "25006")
# These errors end one statement; the connection stays usable.
OF_STATEMENT = ("40", "55P03", "57014")
# Errors of both drivers and of SQLAlchemy without a SQLSTATE: the connection is unusable, or could not be opened.
OF_CONNECTION = {"OperationalError", "InterfaceError", "InternalClientError"}
# Messages of Postgres that refuse a login. A driver that uses libpq gets no SQLSTATE if the connection fails.
REFUSED_LOGIN = re.compile(
    r"password authentication failed for user|no pg_hba\.conf entry for|pg_hba\.conf rejects connection"
    r'|(role|database) ".*" does not exist|role ".*" is not permitted to log in'
)


class GroupDiffers(Exception):
    """The group's number of partitions differs from the number that the member was started with."""


class GroupDropped(Exception):
    """The group was dropped while a member was working for it."""


class LeaseLost(Exception):
    """The lease ran out, and another member may be working on the batch: stop."""


class PoolerInBetween(Exception):
    """A connection pooler answers instead of Postgres; other clients would get the consumer's session settings."""


class ConnectionLost(Exception):
    """The connection was lost during the work because Postgres stopped: the work is not the cause."""


class WorkLost(Exception):
    """The connection was lost during the work, although Postgres itself kept running."""


class WorkTooSlow(Exception):
    """The work exceeded the timeout of a transaction."""


class TransactionEnded(Exception):
    """The work committed or rolled back the consumer's transaction, which only the consumer may end."""


class WorkCancelled(Exception):
    """A task that the work awaits was cancelled, and the work did not catch the cancellation."""

    def __init__(self) -> None:
        super().__init__(
            "the work raised CancelledError without a request to stop: a task that the work awaits was cancelled"
        )


class WorkFailed(Exception):
    """The error of a consumer's work, with the records of the batch; it rolls the transaction back."""

    def __init__(self, state: PartitionState, records: Sequence[LogRecord], error: Exception) -> None:
        super().__init__(error)
        self.state, self.records, self.error = state, records, error


class WorkResult(NamedTuple):
    """The result of the work: its error or None, and whether the work took too long."""

    error: Exception | None
    is_late: bool


def error_text(error: BaseException) -> str:
    """Convert any error to a text that Postgres can store and a terminal can show."""
    try:
        text = str(error)
    except Exception as trouble:  # noqa: BLE001 - `__str__` of an error is the user's code
        text = f"(its text can't be read: {type(trouble).__name__})"
    text = f"{type(error).__name__}: {text}".replace("\0", r"\x00")
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def is_passing(error: BaseException) -> bool:
    """Return whether the same call may succeed on a new connection; any other error is permanent."""
    if isinstance(error, ConnectionLost):
        return True
    if sqlstate := sqlstate_of(error):
        return sqlstate.startswith(PASSING)
    if isinstance(error, ValueError) or is_refused_login(error):
        return False  # asyncpg raises ValueError for an invalid value or DSN
    return isinstance(error, OSError) or any(kind.__name__ in OF_CONNECTION for kind in type(error).__mro__)


def spares_connection(error: BaseException) -> bool:
    """Return whether a connection stays usable after an error; a cancellation makes it unusable."""
    if not isinstance(error, Exception) or isinstance(error, TimeoutError):
        return False
    return not is_passing(error) or sqlstate_of(error).startswith(OF_STATEMENT)


def is_refused_login(error: BaseException) -> bool:
    """Return whether Postgres refused the login of libpq; only messages in English are recognized."""
    failed = ((it, getattr(it, "pgconn", None)) for it in _causes_of(error))
    return any(conn and (conn.needs_password or REFUSED_LOGIN.search(str(it))) for it, conn in failed)


def is_unknown_host(error: BaseException) -> bool:
    """Return whether a connection could not be opened because its host name is unknown."""
    return any(isinstance(it, socket.gaierror) for it in _causes_of(error))


def sqlstate_of(error: BaseException) -> str:
    """Return the SQLSTATE of an error; SQLAlchemy wraps the driver's error in its own error."""
    states = (getattr(it, "sqlstate", None) or getattr(it, "pgcode", None) for it in _causes_of(error))
    return next(filter(None, states), "")


def _causes_of(error: BaseException) -> Iterator[BaseException]:
    left: list[BaseException | None] = [error]
    while left:
        it = left.pop()
        if it is not None:
            yield it
            left += [it.__cause__, getattr(it, "orig", None)]
