"""Find values that Postgres can't store: a NUL character, half of a surrogate pair, JSON with too many levels.

All interfaces use these functions, so that their messages are the same.
"""

import json
import re
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

from shardclock.refusal import shown

DEPTH_MAX = 100
TOO_DEEP = f"is nested deeper than {DEPTH_MAX} levels; flatten it"
NUL = "contains a NUL character, which Postgres can't store; leave it out"
NOT_UTF8 = "is not valid UTF-8; encode the text as UTF-8"
HALF_PAIR = "contains half of a surrogate pair, which UTF-8 can't encode; write whole characters"
UNREADABLE = "unreadable"  # the single key of the object that replaces an unreadable document

STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
BRACKET = re.compile(r"[\[\]{}]")
# An escaped NUL has an odd number of backslashes before u0000; after an even number, u0000 is plain text.
ESCAPED_NUL = re.compile(r"(?<!\\)(?:\\\\)*+\\u0000")

# In JSON of ASCII characters: an escaped NUL, or an escaped half of a surrogate pair without its other half.
ESCAPED = re.compile(
    r"(?<!\\)(?:\\\\)*+\\u(?:0000|d[89ab][0-9a-f]{2}(?!\\ud[c-f])|(?<!\\ud[89ab][0-9a-f]{2}\\u)d[c-f])"
)
HALF = re.compile("[\ud800-\udfff]")


def is_too_deep(text: str, levels: int = DEPTH_MAX) -> bool:
    """Return whether JSON text nests lists and objects deeper than `levels`."""
    if text.count("[") + text.count("{") <= levels:
        return False
    steps = (1 if bracket in "[{" else -1 for bracket in BRACKET.findall(STRING.sub("", text)))
    return any(depth > levels for depth in accumulate(steps))


def has_nul(text: str) -> bool:
    """Return whether JSON text contains a NUL character, which jsonb can't store."""
    return "\\u0000" in text and ESCAPED_NUL.search(text) is not None


def has_unstorable(text: str) -> bool:
    """Return whether JSON of ASCII characters contains a NUL character or half of a surrogate pair."""
    return ESCAPED.search(text) is not None


def fault_of(text: str) -> str | None:
    """Return the reason why Postgres can't store a text; None: Postgres can store the text."""
    if "\0" in text:
        return NUL
    return HALF_PAIR if HALF.search(text) else None


def storable(text: str) -> str:
    """Replace characters that Postgres can't store with question marks."""
    return text if fault_of(text) is None else text.replace("\0", "?").encode(errors="replace").decode()


def faults_of(value: object, name: str) -> Iterator[str]:
    """Find the texts within a JSON value that Postgres can't store.

    The result has a sentence for each text, with the name of the field.

    shape:   `name` is the name of the whole value; the fields of its objects follow this name after a dot
    """
    left = [(name, value)]
    while left:
        where, found = left.pop()
        match found:
            case str() if fault := fault_of(found):
                yield f"{where} {shown(found)} {fault}"
            case list():
                left.extend((where, item) for item in found)
            case dict():
                for key, item in found.items():
                    if fault := fault_of(key):
                        yield f"{where}: the name {shown(key)} {fault}"
                    else:
                        left.append((f"{where}.{key}" if where else key, item))


def stored_json(text: str) -> Any:
    """Parse a JSON document from the database; an unreadable document becomes an object with the reason.

    One unreadable document must not prevent a response with many rows.
    """
    why = f"it {TOO_DEEP}" if is_too_deep(text) else None
    try:
        return json.loads(text) if why is None else {UNREADABLE: why}
    except ValueError as error:  # Python refuses, for example, a number with thousands of digits
        return {UNREADABLE: f"the document can't be read: {error}"}


def is_unreadable(value: object) -> bool:
    """Return whether a value is the replacement for an unreadable document."""
    return isinstance(value, dict) and value.keys() == {UNREADABLE}
