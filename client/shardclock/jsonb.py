"""Find values that Postgres can't store: a NUL character, half of a surrogate pair, too many levels of JSON.

The words are the same for each way in.
"""

import json
import re
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

from shardclock.refusal import shown

DEPTH_MAX = 100
TOO_DEEP = f"is nested deeper than {DEPTH_MAX} levels; flatten it"
NUL = "holds a NUL character, which Postgres can't store; leave it out"
NOT_UTF8 = "is not valid UTF-8; encode the text as UTF-8"
HALF_PAIR = "holds half of a surrogate pair, which UTF-8 can't say; write whole characters"
UNREADABLE = "unreadable"  # the only key of the object that stands for a document which can't be read

STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
BRACKET = re.compile(r"[\[\]{}]")
# An escaped NUL has an odd number of backslashes before u0000; after an even number, u0000 is plain text.
ESCAPED_NUL = re.compile(r"(?<!\\)(?:\\\\)*+\\u0000")

# In JSON of ASCII characters: such a NUL, or an escaped half of a surrogate pair without its other half.
ESCAPED = re.compile(
    r"(?<!\\)(?:\\\\)*+\\u(?:0000|d[89ab][0-9a-f]{2}(?!\\ud[c-f])|(?<!\\ud[89ab][0-9a-f]{2}\\u)d[c-f])"
)
HALF = re.compile("[\ud800-\udfff]")


def is_too_deep(text: str, levels: int = DEPTH_MAX) -> bool:
    """Say whether a text of JSON has more lists and objects around each other than these."""
    if text.count("[") + text.count("{") <= levels:
        return False
    steps = (1 if bracket in "[{" else -1 for bracket in BRACKET.findall(STRING.sub("", text)))
    return any(depth > levels for depth in accumulate(steps))


def has_nul(text: str) -> bool:
    """Say whether a text of JSON holds a NUL character, which jsonb can't."""
    return "\\u0000" in text and ESCAPED_NUL.search(text) is not None


def has_unstorable(text: str) -> bool:
    """Say whether JSON of ASCII characters holds a NUL character or half of a surrogate pair."""
    return ESCAPED.search(text) is not None


def fault_of(text: str) -> str | None:
    """Say why Postgres can't store a text; None: it can."""
    if "\0" in text:
        return NUL
    return HALF_PAIR if HALF.search(text) else None


def storable(text: str) -> str:
    """Replace characters that Postgres can't store by question marks."""
    return text if fault_of(text) is None else text.replace("\0", "?").encode(errors="replace").decode()


def faults_of(value: object, name: str) -> Iterator[str]:
    """List the texts within a JSON value that Postgres can't store: a sentence each, which names the field.

    shape:   `name` is the value's own; the fields of its objects follow it after a dot
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
