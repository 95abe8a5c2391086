"""Turn values of JSON into FEEL's, and back."""

from __future__ import annotations

import math
import sys
from datetime import UTC, datetime
from decimal import Decimal
from types import NoneType
from typing import TypeAlias

from bpmn.feel.arithmetic import CONTEXT, INT_END, whole
from bpmn.feel.budget import Budget, check_depth
from bpmn.feel.refusal import TooLong
from bpmn.feel.temporal import Date, DateTime, Elapsed, Months, Time
from bpmn.feel.temporal_text import temporal_text
from bpmn.feel.text import text_of
from bpmn.feel.values import FeelValue, Range, Unlike

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

NODES_MAX = 250_000
FLOAT_MAX = sys.float_info.max
READ_AS_THEY_ARE = (bool, str, NoneType)
WRITTEN_AS_THEY_ARE = (int, *READ_AS_THEY_ARE)
NEVER = datetime(1970, 1, 1, tzinfo=UTC)  # what a value is written at does not matter


def from_json(value: object) -> FeelValue:
    """Turn what Python's `json` reads into a value; texts stay texts, also those that look like dates.

    shape:   a float becomes the decimal that JSON wrote; what JSON has no word for, such as NaN, becomes null
    errors:  TooLong  lists and objects lie too deep within each other
    """
    return value if isinstance(value, READ_AS_THEY_ARE) else _read(value, 0)


def to_json(value: FeelValue) -> Json:
    """Turn a value into what Python's `json` writes.

    shape:   a whole number is an int, any other the nearest float; a date, time, duration or range is its text; a
             function is null
    errors:  TooLong  it has more than 250,000 parts, or they lie too deep within each other
    """
    return value if isinstance(value, WRITTEN_AS_THEY_ARE) else _Writer().written(value, 0)


def _read(value: object, depth: int) -> FeelValue:  # noqa: PLR0911 - one for each kind
    check_depth(depth)
    match value:
        case None | bool() | str():
            return value
        case int():
            return whole(value)
        case float():
            return CONTEXT.create_decimal(repr(value)) if math.isfinite(value) else None
        case list() | tuple():
            return [_read(item, depth + 1) for item in value]
        case dict():
            return {str(key): _read(item, depth + 1) for key, item in value.items()}
        case Decimal():
            return CONTEXT.plus(value) if value.is_finite() else None
    return None


class _Writer:
    """Count the parts of one value while it is written: parts that are shared are written each time."""

    def __init__(self) -> None:
        self.left = NODES_MAX

    def written(self, value: FeelValue, depth: int) -> Json:  # noqa: PLR0911 - one for each kind
        check_depth(depth)
        self.left -= 1
        if self.left < 0:
            raise TooLong(f"a value has more than {NODES_MAX:,} parts; return less of it")
        match value:
            case None | bool() | str() | int():
                return value
            case Decimal():
                return _number(value)
            case Date() | Time() | DateTime() | Months() | Elapsed():
                return temporal_text(value)
            case list():
                return [self.written(item, depth + 1) for item in value]
            case dict():
                return {key: self.written(item, depth + 1) for key, item in value.items()}
            case Range() | Unlike():
                return text_of(value, Budget(NEVER, NODES_MAX))
        return None


def _number(number: Decimal) -> int | float:
    is_whole = number == number.to_integral_value() and abs(number) < INT_END
    if abs(number) > FLOAT_MAX:
        raise TooLong(f"a number is over {FLOAT_MAX:.0e}, the largest that JSON's readers know; return a smaller one")
    return int(number) if is_whole else float(number)
