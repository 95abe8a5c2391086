"""Refuse values that JSON can't represent exactly; the error names the value's position in the field."""

import json
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from math import isfinite

from shardclock.jsonb import HALF, HALF_PAIR
from shardclock.refusal import shown

AS_THEY_ARE = (str, bool, int, type(None))
NO_NUMBERS = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
CHANGED: tuple[tuple[tuple[type, ...], str], ...] = (
    ((set, frozenset), "and JSON has no set; write a list"),
    ((bytes, bytearray, memoryview), "and JSON has no bytes; write a text, such as their base64"),
    ((Decimal, Fraction, complex), "which would come back as a text; write a float or a text"),
    ((Iterator,), "which can be read once; write a list"),
)


class NoForm(ValueError):
    """JSON has no form for a value, or would change it."""


def refuse_changed(name: str, value: object) -> None:
    """Refuse a field's value if JSON would change it.

    errors:  NoForm  names the field, the part, the rule and the remedy; the message also has the part's position,
                     unless the part is the whole field
    """
    try:
        for path, why in _changed_parts(name, value):
            raise NoForm(f"{name} {why}" + (f", at {path}" if path != name else ""))
    except RecursionError:
        return  # the JSON encoder refuses a recursive value later, and Postgres refuses a value of too many levels


def refuse_half_pairs(text: str) -> None:
    """Refuse the JSON of fields if UTF-8 can't encode one of its texts.

    errors:  NoForm  names the field, the rule and the remedy; the message also has the text's position, unless the text
                     is the whole field
    """
    if not HALF.search(text):
        return
    for name, value in json.loads(text).items():
        for path in _half_pairs(name, value):
            raise NoForm(f"{name} {HALF_PAIR}" + (f", at {path}" if path != name else ""))


def why_changed(value: object) -> str | None:
    """Return why JSON can't represent a value exactly; None: JSON can represent the value.

    The elements of a list or dict are not checked.
    """
    if isinstance(value, float):
        no_number = NO_NUMBERS.get(repr(float(value)))
        return no_number and f"contains {no_number}, which is no JSON number; write None or a text"
    return next((f"contains {shown(value)}, {rule}" for types, rule in CHANGED if isinstance(value, types)), None)


def _changed_parts(path: str, value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, AS_THEY_ARE) or (isinstance(value, float) and isfinite(value)):
        return
    if isinstance(value, dict):
        for key, part in value.items():
            if key is None or isinstance(key, bool | int | float):
                yield path, f"contains the key {shown(key)}, and a key in JSON is a text; write {shown(_text_of(key))}"
            yield from _changed_parts(f"{path}.{key}", part)
    elif isinstance(value, list | tuple):
        for place, part in enumerate(value):
            yield from _changed_parts(f"{path}[{place}]", part)
    elif why := why_changed(value):
        yield path, why


def _half_pairs(path: str, value: object) -> Iterator[str]:
    """Yield the position of each text with half of a surrogate pair; for a key, the position of the key's object."""
    if isinstance(value, str) and HALF.search(value):
        yield path
    elif isinstance(value, dict):
        for key, part in value.items():
            if HALF.search(key):
                yield path
            yield from _half_pairs(f"{path}.{key}", part)
    elif isinstance(value, list):
        for place, part in enumerate(value):
            yield from _half_pairs(f"{path}[{place}]", part)


def _text_of(key: object) -> str:
    """Return the text to which JSON converts a key."""
    (text,) = json.loads(json.dumps({key: None}))
    return str(text)
