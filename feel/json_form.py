"""Convert JSON values to values of FEEL, and back."""

from __future__ import annotations

import math
import sys
from datetime import UTC, datetime
from decimal import Decimal
from types import NoneType
from typing import TypeAlias

from shardclock.jsonb import fault_of
from shardclock_server.feel.arithmetic import CONTEXT, INT_END, whole
from shardclock_server.feel.budget import ITEMS_PER_STEP, VALUE_CHARS_MAX, Budget, check_depth
from shardclock_server.feel.refusal import TooLong, Unstorable
from shardclock_server.feel.temporal import Date, DateTime, Elapsed, Months, Time
from shardclock_server.feel.temporal_text import temporal_text
from shardclock_server.feel.text import text_of
from shardclock_server.feel.values import FeelValue, Inequality, Range
from shardclock_server.timers.refusal import shortened

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

NODES_MAX = 250_000
FLOAT_MAX = sys.float_info.max
UNCHANGED_TYPES = (bool, str, NoneType)
PART_CHARS = 8  # Each element of a value counts as this number of characters, in addition to its text.
# A budget requires a moment, but the conversion to JSON never reads this moment.
UNUSED_MOMENT = datetime(1970, 1, 1, tzinfo=UTC)


def from_json(value: object, budget: Budget | None = None) -> FeelValue:
    """Convert the output of Python's `json` to a value of FEEL; a text stays a text, even if it looks like a date.

    Each element of the lists and objects costs steps of the `budget`: one step for four elements.

    shape:   a float becomes the decimal in the JSON text; values that JSON lacks, such as NaN, become null
    errors:  TooLong  lists and objects have too many levels, or the budget is too small
    """
    return value if isinstance(value, UNCHANGED_TYPES) else _read(value, 0, budget or _unbounded())


def to_json(value: FeelValue, budget: Budget | None = None, *, levels: int = 0) -> Json:
    """Convert a value to the input of Python's `json`.

    The `budget` counts the steps and the characters of all elements.

    shape:   `levels` is the number of lists and contexts that will contain the value. A whole number becomes an int,
             any other number the nearest float; a date, time, duration or range becomes its text; a function becomes
             null
    errors:  TooLong  the value has more than 250,000 parts or 1,048,576 characters of text, has too many levels, or the
                      budget is too small
             Unstorable  a text has a NUL character or half of a surrogate pair
    """
    writer = _Writer()
    written = writer.written(value, levels)
    if budget is not None:
        budget.spend(writer.parts // ITEMS_PER_STEP)
        budget.returned_chars += writer.chars + PART_CHARS * writer.parts
    return written


def _unbounded() -> Budget:
    return Budget(UNUSED_MOMENT, sys.maxsize)


def _read(value: object, depth: int, budget: Budget) -> FeelValue:  # noqa: PLR0911 - one for each kind
    check_depth(depth)
    match value:
        case None | bool() | str():
            return value
        case int():
            return whole(value)
        case float():
            return CONTEXT.create_decimal(repr(value)) if math.isfinite(value) else None
        case list() | tuple():
            budget.spend(len(value) // ITEMS_PER_STEP)
            return [_read(item, depth + 1, budget) for item in value]
        case dict():
            budget.spend(len(value) // ITEMS_PER_STEP)
            return {str(key): _read(item, depth + 1, budget) for key, item in value.items()}
        case Decimal():
            return CONTEXT.plus(value) if value.is_finite() else None
    return None


class _Writer:
    """Convert one value to JSON, and count its elements and characters.

    An element that occurs several times counts each time.
    """

    def __init__(self) -> None:
        self.parts = 0
        self.chars = 0

    def written(self, value: FeelValue, depth: int) -> Json:  # noqa: PLR0911 - one for each kind
        check_depth(depth)
        self.parts += 1
        if self.parts > NODES_MAX:
            raise TooLong(f"a value has more than {NODES_MAX:,} elements; return a smaller value")
        match value:
            case str():
                return self._text(value)
            case None | bool() | int():
                return value
            case Decimal():
                return _number(value)
            case Date() | Time() | DateTime() | Months() | Elapsed():
                return self._text(temporal_text(value))
            case list():
                check_depth(depth + 1)
                return [self.written(item, depth + 1) for item in value]
            case dict():
                check_depth(depth + 1)
                return {self._text(key): self.written(item, depth + 1) for key, item in value.items()}
            case Range() | Inequality():
                return self._text(text_of(value, Budget(UNUSED_MOMENT, NODES_MAX)))
        return None

    def _text(self, text: str) -> str:
        self.chars += len(text)
        if self.chars > VALUE_CHARS_MAX:
            raise TooLong(f"a value has more than {VALUE_CHARS_MAX:,} characters of text; return a smaller value")
        if why := fault_of(text):
            raise Unstorable(f"the text {shortened(text)} {why}")
        return text


def _number(number: Decimal) -> int | float:
    is_whole = number == number.to_integral_value() and abs(number) < INT_END
    if abs(number) > FLOAT_MAX:
        raise TooLong(
            f"a number is above {FLOAT_MAX:.0e}, the largest number that readers of JSON support; return a smaller one"
        )
    return int(number) if is_whole else float(number)
