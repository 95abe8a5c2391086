"""Make the client's errors of what Postgres refuses; all else stays the driver's own error.

A driver's error about a lost connection, a deadlock or a serialization failure is what a user's own retries look for,
so it reaches them as it is.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, NamedTuple

from shardclock.api.errors import PREFIX, ApiError, Problem, error_of
from shardclock.reason import one_line

NOT_ALLOWED = "42501"
OF_VALUES = ("22", "23")  # classes of SQLSTATE: a value that can't be, or that a constraint forbids
KINDS: Mapping[str, str] = MappingProxyType(
    {
        NOT_ALLOWED: "not-allowed",
        "23505": "name-taken",  # as shardclock.ensure_timer raises it
        "55000": "conflict",  # a schedule that no shard has planned yet, or an instance waits for the timer
    }
)


class Said(NamedTuple):
    """Hold what Postgres has said: the SQLSTATE, and the sentence without its detail, hint and place."""

    sqlstate: str | None
    sentence: str | None


@contextmanager
def refusing(errors: type[Exception], said_by: Callable[[Any], Said]) -> Iterator[None]:
    """Raise the client's own error in place of a driver's, if Postgres has refused what was asked.

    errors:  ApiError  it was refused; the driver's error is its cause
    """
    try:
        yield
    except errors as error:
        refusal = error_of_postgres(said_by(error))
        if refusal is None:
            raise
        raise refusal from error


def error_of_postgres(said: Said) -> ApiError | None:
    """Make the client's error of what Postgres has said; None if that is no refusal of what was asked."""
    sqlstate, sentence = said.sqlstate or "", one_line(said.sentence or "")
    kind = KINDS.get(sqlstate) or ("refused" if sqlstate.startswith(OF_VALUES) else None)
    if kind is None:
        return None
    if sqlstate == NOT_ALLOWED:
        sentence = f"{sentence}; grant the role that is connected shardclock_scheduler"
    return _error(kind, sentence, sqlstate=sqlstate)


def refused(sentence: str) -> ApiError:
    """Make the error of what this client refuses before it asks Postgres."""
    return _error("refused", sentence)


def not_done(sentence: str, state: str, *, is_there: bool) -> ApiError:
    """Make the error of a timer that is in another state, or is not there."""
    return _error("too-late" if is_there else "not-found", sentence, state=state)


def _error(kind: str, sentence: str, **members: str) -> ApiError:
    return error_of(Problem(type=f"{PREFIX}{kind}", status=0, detail=sentence, members=members))
