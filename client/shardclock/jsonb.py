"""Find JSON that jsonb in Postgres can't hold: a NUL character, half of a surrogate pair, too many levels."""

import json
import re
from itertools import accumulate
from typing import Any

DEPTH_MAX = 100
TOO_DEEP = f"is nested deeper than {DEPTH_MAX} levels; flatten it"
UNREADABLE = "unreadable"  # the only key of the object that stands for a document which can't be read

STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
BRACKET = re.compile(r"[\[\]{}]")
# An escaped NUL has an odd number of backslashes before u0000; after an even number, u0000 is plain text.
ESCAPED_NUL = re.compile(r"(?<!\\)(?:\\\\)*+\\u0000")


def is_too_deep(text: str, levels: int = DEPTH_MAX) -> bool:
    """Say whether a text of JSON has more lists and objects around each other than these."""
    if text.count("[") + text.count("{") <= levels:
        return False
    steps = (1 if bracket in "[{" else -1 for bracket in BRACKET.findall(STRING.sub("", text)))
    return any(depth > levels for depth in accumulate(steps))


def has_nul(text: str) -> bool:
    """Say whether a text of JSON holds a NUL character, which jsonb can't."""
    return "\\u0000" in text and ESCAPED_NUL.search(text) is not None


def stored_json(text: str) -> Any:
    """Read JSON of the database for an answer; a document that no client could read becomes an object that says why.

    The document came in by a way without a check. It must not make the other rows of its answer unreadable.
    """
    why = f"it {TOO_DEEP}" if is_too_deep(text) else None
    try:
        return json.loads(text) if why is None else {UNREADABLE: why}
    except ValueError as error:  # a number of thousands of digits
        return {UNREADABLE: f"it can't be read: {error}"}


def is_unreadable(value: object) -> bool:
    """Say whether `stored_json` could not read a document."""
    return isinstance(value, dict) and value.keys() == {UNREADABLE}
