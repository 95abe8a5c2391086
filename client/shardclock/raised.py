"""The exceptions that a handler raises to set the outcome for its timer; any other exception causes a retry."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from pydantic import BaseModel

from shardclock.durations import seconds_of
from shardclock.recorded import as_variables
from shardclock.refusal import shown

RETRY_IN_MAX = "P365D"
CODE_CHARS_MAX = 200


class Discard(Exception):
    """End the retries of a timer without a failure: the timer needs no further attempt."""

    reason = "the handler discarded it"

    def __init__(self, reason: str = reason) -> None:
        super().__init__(reason)
        self.reason = reason


class BpmnError(Discard):
    """End a service task of a process with a BPMN error.

    An event in the model may catch the error by its code; the output mappings of this event can read the `variables`.
    If the timer belongs to no service task, the error acts as a `Discard`.

    errors:  ValueError  the code is empty, or longer than 200 characters, or the variables can't be recorded
    """

    def __init__(
        self,
        code: str,
        reason: str = "the handler threw an error",
        variables: dict[str, Any] | BaseModel | None = None,
    ) -> None:
        super().__init__(reason)
        if not 0 < len(code) <= CODE_CHARS_MAX:
            raise ValueError(
                f"BpmnError {shown(code)} is refused: a code is a text of 1 to {CODE_CHARS_MAX} characters"
            )
        kept, why = (None, None) if variables is None else as_variables(variables)
        if why is not None:
            raise ValueError(f"the variables of BpmnError {shown(code)} can't be recorded: the value {why}")
        self.code = str.__str__(code)  # an enum becomes plain text, because a worker does not import the user's classes
        self.variables: dict[str, Any] | None = kept


class RetryIn(Exception):
    """Set the pause before the next attempt, at most a year, instead of the policy's pause.

    The call that raises `RetryIn` counts as an attempt, so there are at most `max_attempts` calls.

    errors:  ValueError  the pause is no duration, or is longer than a year
    """

    delay_s = 0.0
    reason = "the handler asked for another attempt"

    def __init__(self, delay: str | timedelta, reason: str = reason) -> None:
        super().__init__(delay, reason)
        self.delay_s, self.reason = seconds_of(delay), reason
        if self.delay_s > seconds_of(RETRY_IN_MAX):
            raise ValueError(f"RetryIn {shown(delay)} is refused: it must be a duration up to {RETRY_IN_MAX}")


class Partly(Exception):
    """Name the timers of a batch that were not handled; all other timers of the batch are completed.

    A value that is an exception, such as `Discard` or `RetryIn`, has the same effect as if a call for this one timer
    had raised it. Any other value is the result of a handled timer, so the values may be the results of
    `asyncio.gather(..., return_exceptions=True)`.

    errors:  TypeError  the argument is not a mapping with timer keys as its keys
    """

    def __init__(self, by_timer_key: Mapping[int, object]) -> None:
        super().__init__(by_timer_key)
        self.by_timer_key = dict(by_timer_key)
        if not all(type(key) is int for key in self.by_timer_key):
            raise TypeError(f"Partly takes a dict of timer_key: exception, not {shown(by_timer_key)}")
