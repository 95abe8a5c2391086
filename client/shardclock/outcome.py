"""The four possible outcomes of an attempt."""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from shardclock.raised import BpmnError, Discard, RetryIn
from shardclock.reason import one_line, reason_of, traceback_of


@dataclass(frozen=True, slots=True)
class Completed:
    """The handler returned. `result` is JSON; `note` explains why a result is not recorded."""

    result: Any = None
    note: str | None = None


COMPLETED = Completed()  # one shared object for the most frequent outcome


@dataclass(frozen=True, slots=True)
class Discarded:
    """The handler ended the retries with `Discard` or with a BPMN error; the attempt is not a failure.

    `code` is the code of a BPMN error, which the model may catch; the catching event gets the `variables`.
    """

    reason: str
    code: str | None = None
    variables: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class RetryLater:
    """The handler requested another attempt after `delay_s` seconds."""

    delay_s: float
    reason: str


@dataclass(frozen=True, slots=True)
class Failed:
    """The attempt failed: the handler raised (error), took too long (timeout), or can't parse the payload (payload).

    shape:   `reason` is one line of at most 300 characters, `traceback` has at most 4,000 characters; Postgres can
             store both
    """

    reason: str
    kind: Literal["error", "timeout", "payload"] = "error"
    traceback: str = ""


Outcome: TypeAlias = Completed | Discarded | RetryLater | Failed


class TookTooLong(Exception):
    """A handler's timeout has passed; `__cause__` has the line that the handler was executing."""


def outcome_of(error: BaseException) -> Outcome:
    """Convert a handler's exception to the outcome of the attempt."""
    # A task group wraps the exceptions of its tasks, including a Discard.
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    match error:
        case BpmnError():
            return Discarded(_text(error.reason), error.code, error.variables)
        case Discard():
            return Discarded(_text(error.reason))
        case RetryIn():
            return RetryLater(error.delay_s, _text(error.reason))
        case TookTooLong():
            return Failed(one_line(str(error)), "timeout", traceback_of(error.__cause__ or error))
    return Failed(reason_of(error), "error", traceback_of(error))


def _text(reason: object) -> str:
    try:
        return one_line(str(reason))
    except Exception as error:  # noqa: BLE001 - the reason is the user's object
        return f"a reason that can't be shown, because its method __str__ raised {type(error).__name__}"
