"""Parse a payload as the type in the handler's annotation."""

import json
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from shardclock.outcome import Failed, Outcome, outcome_of
from shardclock.reason import misfit, one_line
from shardclock.refusal import InvalidHandler, shown
from shardclock.timer import Timer, with_payload

DECODER = json.JSONDecoder()


def adapter_of(annotation: Any, *, handler: str) -> TypeAdapter[Any] | None:
    """Create the parser for payloads of a type; return None if the handler accepts any payload.

    errors:  InvalidHandler  pydantic can't handle this type
    """
    if annotation is Any:
        return None
    try:
        return TypeAdapter(annotation)
    except (PydanticUserError, TypeError) as error:
        why = str(error).strip().partition("\n")[0]
        raise InvalidHandler(
            f"handler {handler} has payloads of {shown(annotation)}, which can't be read from JSON"
            f" ({one_line(why).rstrip('.')}); take a pydantic model or a dataclass"
        ) from None


def read_payload(adapter: TypeAdapter[Any] | None, timer: Timer[str | None]) -> Timer[Any] | Outcome:
    """Parse the payload of a timer as it was delivered: JSON text, or None without a payload.

    A payload that can't be parsed ends the retries, because each attempt would get the same payload.
    """
    text = timer.payload
    try:
        if adapter is None:
            return timer if text is None else with_payload(timer, DECODER.decode(text))
        return with_payload(timer, adapter.validate_json("null" if text is None else text))
    except ValidationError as error:
        return Failed(_misfit(error, text), "payload")
    except (ValueError, RecursionError) as error:
        return Failed(one_line(f"the payload can't be read: {error}"), "payload")
    except BaseException as error:  # noqa: BLE001 - a model's validators are the user's code, like the handler
        return outcome_of(error)


def _misfit(error: ValidationError, text: str | None) -> str:
    if text is None:
        return one_line(f"the timer has no payload, and the handler takes one of {error.title}")
    return one_line(f"the payload does not fit {error.title}: {misfit(error)}")
