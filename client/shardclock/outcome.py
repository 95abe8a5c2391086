"""Define how an attempt can end: four records, and nothing else."""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from shardclock.raised import BpmnError, Discard, RetryIn
from shardclock.reason import one_line, reason_of, traceback_of


@dataclass(frozen=True, slots=True)
class Completed:
    """The handler returned. `result` is JSON; `note` says why what it returned is not recorded."""

    result: Any = None
    note: str | None = None


COMPLETED = Completed()  # how most attempts end


@dataclass(frozen=True, slots=True)
class Discarded:
    """The handler wants no further attempt, and that is no fault.

    `code` is of an error that a process may catch, `variables` are what it gives to who catches it.
    """

    reason: str
    code: str | None = None
    variables: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class RetryLater:
    """The handler wants its next attempt after `delay_s` seconds."""

    delay_s: float
    reason: str


@dataclass(frozen=True, slots=True)
class Failed:
    """The attempt failed: the handler raised (error), took too long (timeout), or can't have this payload (payload).

    shape:   `reason` is one line of at most 300 characters, `traceback` at most 4,000; Postgres can store both
    """

    reason: str
    kind: Literal["error", "timeout", "payload"] = "error"
    traceback: str = ""


Outcome: TypeAlias = Completed | Discarded | RetryLater | Failed


class TookTooLong(Exception):
    """Tell that a handler's timeout is over; `__cause__` says where it was then."""


def outcome_of(error: BaseException) -> Outcome:
    """Judge a call by what it raised."""
    # A task group wraps what its task raised, also a Discard.
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    match error:
        case BpmnError():
            return Discarded(_said(error.reason), error.code, error.variables)
        case Discard():
            return Discarded(_said(error.reason))
        case RetryIn():
            return RetryLater(error.delay_s, _said(error.reason))
        case TookTooLong():
            return Failed(one_line(str(error)), "timeout", traceback_of(error.__cause__ or error))
    return Failed(reason_of(error), "error", traceback_of(error))


def _said(reason: object) -> str:
    try:
        return one_line(str(reason))
    except Exception as error:  # noqa: BLE001 - the reason is the user's object
        return f"a reason that can't be shown: its __str__ raised {type(error).__name__}"
