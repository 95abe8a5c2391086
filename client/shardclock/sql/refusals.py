"""Convert refusals by Postgres to the client's errors.

A lost connection, a deadlock or a serialization failure stays an error of the driver, because users' retries expect the
driver's errors.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, NamedTuple

from shardclock.api.codes import CONFLICT, NAME_TAKEN, NOT_ALLOWED, REFUSED, RefusalCode, invalid
from shardclock.api.errors import ApiError, Problem, error_of
from shardclock.api.refusals import code_of
from shardclock.reason import one_line

OF_VALUES = ("22", "23")  # classes of SQLSTATE: an invalid value, or a violated constraint
BY_SQLSTATE: Mapping[str, RefusalCode] = MappingProxyType(
    {
        "42501": NOT_ALLOWED,
        "23505": NAME_TAKEN,  # the user inserted a row into shardclock.timers directly
        "55000": CONFLICT,
    }
)


class PostgresFault(NamedTuple):
    """An error of Postgres: the SQLSTATE, the bare message (no detail, hint or position) and the constraint.

    If Shardclock's functions refuse a request, the constraint is the code of the refusal.
    """

    sqlstate: str | None
    sentence: str | None
    constraint: str | None = None


@contextmanager
def converting_refusals(errors: type[Exception], describe: Callable[[Any], PostgresFault]) -> Iterator[None]:
    """Raise the client's own error instead of the driver's error, if Postgres has refused the request.

    errors:  ApiError  Postgres has refused the request; the driver's error is the cause
    """
    try:
        yield
    except errors as error:
        converted = error_of_postgres(describe(error))
        if converted is None:
            raise
        raise converted from error


def error_of_postgres(fault: PostgresFault) -> ApiError | None:
    """Convert an error of Postgres to the client's error; None: the error is not a refusal."""
    sqlstate, sentence = fault.sqlstate or "", one_line(fault.sentence or "")
    code = code_of(fault.constraint or "") or BY_SQLSTATE.get(sqlstate)
    if code is None:
        if not sqlstate.startswith(OF_VALUES):
            return None
        code = REFUSED
    if code is NOT_ALLOWED:
        sentence = f"{sentence}; grant the role that is connected shardclock_scheduler"
    return refusal(code, sentence, sqlstate=sqlstate)


def refusal(code: RefusalCode, sentence: str, **members: str) -> ApiError:
    """Create the error of a refusal."""
    return error_of(Problem(type=code.type, status=0, detail=sentence, members=members))


def invalid_field(field: str, why: str) -> ApiError:
    """Create the error of a field that this client refuses before it sends the request."""
    code = invalid(field)
    return refusal(code, code.sentence(why=why))
