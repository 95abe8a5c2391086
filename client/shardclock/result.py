"""Keep what a handler returns, if it is JSON that fits into the log; else say why not."""

import json

from pydantic import BaseModel

from shardclock.outcome import COMPLETED, Completed
from shardclock.refusal import shown

RESULT_BYTES_MAX = 16_384
WRITTEN_MAX = 1_000_000  # characters and parts: what has more is not written, since that would copy it
DEPTH_MAX = 100  # as a payload's: Postgres refuses what is nested too deeply for its stack


def _json_of(value: object) -> object:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    raise TypeError(f"{shown(value)} has no form in JSON")


ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_json_of)


def completed(result: object) -> Completed:  # noqa: PLR0911 - each note says another way out
    """Judge a call that returned; a result that can't be recorded is dropped with a note, and is no fault."""
    if result is None:
        return COMPLETED
    try:
        if _is_huge(result):
            return _dropped(
                type(result),
                f"has over {WRITTEN_MAX:,} characters or parts, and the limit is {RESULT_BYTES_MAX:,} bytes of JSON;"
                " store it, return its key",
            )
        text = ENCODER.encode(result)
        size = len(text.encode())
    except Exception:  # noqa: BLE001 - encoding runs into the user's classes
        return _dropped(
            result,
            "has no form in JSON; return objects, arrays, text, finite numbers, booleans, pydantic models or None",
        )
    if size > RESULT_BYTES_MAX:
        return _dropped(result, f"has {size:,} bytes as JSON, more than {RESULT_BYTES_MAX:,}; store it, return its key")
    try:
        # Read back, so that a test sees what is recorded: an object's keys are text, a tuple is an array.
        value = json.loads(text)
    except (RecursionError, ValueError):
        return _dropped(result, f"is nested deeper than {DEPTH_MAX} levels; flatten it")
    if why := _unfit(value, DEPTH_MAX):
        return _dropped(result, why)
    return Completed(value)


def _is_huge(value: object) -> bool:
    """Say whether a value of text, objects and arrays is so large that to write it would need much memory."""
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


def _unfit(value: object, levels: int) -> str | None:
    if levels < 0:
        return f"is nested deeper than {DEPTH_MAX} levels; flatten it"
    match value:
        case str():
            return "holds a NUL character, which Postgres can't store; leave it out" if "\0" in value else None
        case dict():
            parts = [*value, *value.values()]
        case list():
            parts = value
        case _:
            return None
    return next((why for part in parts if (why := _unfit(part, levels - 1))), None)


def _dropped(result: object, why: str) -> Completed:
    return Completed(None, note=f"the result {shown(result)} is not recorded: it {why}")
