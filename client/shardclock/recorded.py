"""Write what a handler gives as JSON that fits into the log; else say why it can't be recorded."""

import json
import math
from typing import Any

from pydantic import BaseModel

from shardclock.jsonb import NUL, TOO_DEEP, has_nul, is_too_deep
from shardclock.refusal import shown

RESULT_BYTES_MAX = 16_384
WRITTEN_MAX = 1_000_000  # characters and parts: what has more is not written, since that would copy it
HUGE = (
    f"has over {WRITTEN_MAX:,} characters or parts, and the limit is {RESULT_BYTES_MAX:,} bytes of JSON;"
    " store it, give its key"
)
FORMLESS = "has no form in JSON; give objects, arrays, text, finite numbers, booleans, pydantic models or None"


def _json_of(value: object) -> object:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    raise TypeError(f"{shown(value)} has no form in JSON")


ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_json_of)


def as_variables(value: object) -> tuple[Any, str | None]:
    """Return an object whose parts become variables, in the form that its JSON gives back; else say why it can't be.

    shape:   (None, what comes after "it") if it can't
    """
    written, why = as_json(value)
    if not isinstance(value, dict | BaseModel) or (why is None and not isinstance(written, dict)):
        why = f"is of type {type(value).__name__}, and only an object has names; give a dict, a pydantic model or None"
    elif why is FORMLESS:
        why = _formless(value)
    return (written, None) if why is None else (None, why)


def as_json(result: object) -> tuple[Any, str | None]:
    """Return a value in the form that its JSON gives back; else say why it can't be recorded, as `as_variables`."""
    if _is_huge(result):
        return None, HUGE
    try:
        text = ENCODER.encode(result)
        size = len(text.encode())
    except Exception:  # noqa: BLE001 - encoding runs into the user's classes
        return None, FORMLESS
    if size > RESULT_BYTES_MAX:
        return None, f"has {size:,} bytes as JSON, more than {RESULT_BYTES_MAX:,}; store it, give its key"
    if is_too_deep(text):
        return None, TOO_DEEP
    # Read back, so that a test sees what is recorded: an object's keys are text, a tuple is an array.
    return json.loads(text), NUL if has_nul(text) else None


def _is_huge(value: object) -> bool:
    """Say whether a value is too large to be written: that would need much memory."""
    left, size = [value], 0
    while left and size <= WRITTEN_MAX:
        part = left.pop()
        if not isinstance(part, str | bytes | bytearray | dict | list | tuple):
            continue
        size += len(part) + 1  # an empty one, too: a list may hold itself
        if size > WRITTEN_MAX or isinstance(part, str | bytes | bytearray):
            continue
        left.extend([*part, *part.values()] if isinstance(part, dict) else part)
    return size > WRITTEN_MAX


def _formless(result: dict[Any, Any] | BaseModel) -> str:
    """Name the first part of a result that has no form in JSON, and where it is."""
    left: list[tuple[str, object]] = [("", result)]
    while left:
        where, part = left.pop()
        match part:
            case dict():
                if odd := [key for key in part if not isinstance(key, str | int | float | bool | None)]:
                    return f"has a key of type {type(odd[0]).__name__}, which JSON can't say; give names that are texts"
                left += [(f"{where}.{key}" if where else f"{key}", value) for key, value in reversed(part.items())]
            case list() | tuple():
                left += reversed([(f"{where}[{at}]", value) for at, value in enumerate(part)])
            case _ if not _has_form(part):
                what, instead = _said_of(part)
                return f"has {what} at {shown(where)}, which JSON can't say; give {instead}"
    return FORMLESS


def _has_form(part: object) -> bool:
    try:
        ENCODER.encode(part).encode()
    except Exception:  # noqa: BLE001 - encoding runs into the user's classes
        return False
    return True


def _said_of(part: object) -> tuple[str, str]:
    match part:
        case float() if not math.isfinite(part):
            return f"{part}", "a finite number, a text or None"
        case str():
            return "a text with half of a surrogate pair", "a text of whole characters"
        case set() | frozenset():
            return f"a value of type {type(part).__name__}", "a list"
    return f"a value of type {type(part).__name__}", "a text or a number"
