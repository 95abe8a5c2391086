"""Convert a handler's values to JSON that fits into the log, or explain why the values can't be recorded."""

import json
import math
from typing import Any

from pydantic import BaseModel

from shardclock.jsonb import NUL, TOO_DEEP, has_nul, is_too_deep
from shardclock.refusal import shown

RESULT_BYTES_MAX = 16_384
# limits of characters and elements; a larger value is not encoded, because the encoder would copy the value
WRITTEN_MAX = 1_000_000
HUGE = (
    f"has over {WRITTEN_MAX:,} characters or parts, and the limit is {RESULT_BYTES_MAX:,} bytes of JSON;"
    " store it elsewhere, and give its key"
)
FORMLESS = "has no form in JSON; give objects, arrays, text, finite numbers, booleans, pydantic models or None"


def _json_of(value: object) -> object:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    raise TypeError(f"{shown(value)} has no form in JSON")


ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_json_of)


def as_variables(value: object) -> tuple[Any, str | None]:
    """Convert an object of variables to JSON and back; return the result, or the reason why it can't be recorded.

    shape:   (value, None), or (None, reason); the reason continues a sentence that begins with "it"
    """
    written, why = as_json(value)
    if not isinstance(value, dict | BaseModel) or (why is None and not isinstance(written, dict)):
        why = f"is of type {type(value).__name__}, and only an object has names; give a dict, a pydantic model or None"
    elif why is FORMLESS:
        why = _formless(value)
    return (written, None) if why is None else (None, why)


def as_json(result: object) -> tuple[Any, str | None]:
    """Convert a value to JSON and back; the result is as in `as_variables`."""
    if _is_huge(result):
        return None, HUGE
    try:
        text = ENCODER.encode(result)
        size = len(text.encode())
    except Exception:  # noqa: BLE001 - encoding runs into the user's classes
        return None, FORMLESS
    if size > RESULT_BYTES_MAX:
        return (
            None,
            f"has {size:,} bytes as JSON, more than {RESULT_BYTES_MAX:,}; store it elsewhere, and give its key",
        )
    if is_too_deep(text):
        return None, TOO_DEEP
    # Return the parsed JSON, so that a test sees the recorded form: keys of objects are text, tuples are arrays.
    return json.loads(text), NUL if has_nul(text) else None


def _is_huge(value: object) -> bool:
    """Return whether a value is so large that its encoding would need too much memory."""
    left, size = [value], 0
    while left and size <= WRITTEN_MAX:
        part = left.pop()
        if not isinstance(part, str | bytes | bytearray | dict | list | tuple):
            continue
        size += len(part) + 1  # the 1 ends the count even for a list that contains itself
        if size > WRITTEN_MAX or isinstance(part, str | bytes | bytearray):
            continue
        left.extend([*part, *part.values()] if isinstance(part, dict) else part)
    return size > WRITTEN_MAX


def _formless(result: dict[Any, Any] | BaseModel) -> str:
    """Return the first element of a result that JSON can't represent, and the element's position."""
    left: list[tuple[str, object]] = [("", result)]
    while left:
        where, part = left.pop()
        match part:
            case dict():
                if odd := [key for key in part if not isinstance(key, str | int | float | bool | None)]:
                    return (
                        f"has a key of type {type(odd[0]).__name__}, which JSON can't express; give "
                        f"names that are texts"
                    )
                left += [(f"{where}.{key}" if where else f"{key}", value) for key, value in reversed(part.items())]
            case list() | tuple():
                left += reversed([(f"{where}[{at}]", value) for at, value in enumerate(part)])
            case _ if not _has_form(part):
                what, instead = _describe_value(part)
                return f"has {what} at {shown(where)}, which JSON can't express; give {instead}"
    return FORMLESS


def _has_form(part: object) -> bool:
    try:
        ENCODER.encode(part).encode()
    except Exception:  # noqa: BLE001 - encoding runs into the user's classes
        return False
    return True


def _describe_value(part: object) -> tuple[str, str]:
    match part:
        case float() if not math.isfinite(part):
            return f"{part}", "a finite number, a text or None"
        case str():
            return "a text with half of a surrogate pair", "a text without half a surrogate pair"
        case set() | frozenset():
            return f"a value of type {type(part).__name__}", "a list"
    return f"a value of type {type(part).__name__}", "a text or a number"
