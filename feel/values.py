"""Define the kinds of FEEL's values, and compare two values.

A value is None, a bool, a number, a str, one of the five temporal kinds, a list, a context, a range or a function. A
number is an int of at most 34 digits, or a finite Decimal. A context is a dict with texts as keys. Values are immutable
by convention, so several values may share an element.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

from shardclock_server.feel.budget import TEXT_CHARS_PER_STEP, Budget, check_depth
from shardclock_server.feel.temporal import SECOND_NS, Date, DateTime, Elapsed, Months, Time

# A value of one of the kinds in the module's docstring. With `object`, mypy requires a check before each use.
FeelValue = object

NUMBER = frozenset({int, Decimal})
EXACT = Context(prec=100, Emin=-10_000, Emax=10_000, traps=[])


@dataclass(frozen=True, slots=True)
class Open:
    """Mark the missing end of a range such as `> 10`; an end with the value null is not a missing end."""


OPEN = Open()


@dataclass(frozen=True, slots=True)
class Range:
    """The values between two ends; `has_start` and `has_end` say whether the range includes the ends.

    shape:   `is_test` marks the test `(= 10)`, which contains the same values as `[10..10]` but is not equal to this
             range
    source:  DMN TCK, 0068-feel-equality, range_010
    """

    start: FeelValue
    end: FeelValue
    has_start: bool
    has_end: bool
    is_test: bool = False


@dataclass(frozen=True, slots=True)
class Inequality:
    """The test `(!= 10)`, which contains all values except one."""

    value: FeelValue


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """A function: the names of its parameters, and the Python function to call."""

    parameters: tuple[str, ...]
    call: Callable[[Budget, list[FeelValue]], FeelValue]


KINDS: dict[type, str] = {
    type(None): "null",
    bool: "boolean",
    int: "number",
    Decimal: "number",
    str: "string",
    Date: "date",
    Time: "time",
    DateTime: "date and time",
    Months: "years and months duration",
    Elapsed: "days and time duration",
    list: "list",
    dict: "context",
    Range: "range",
    Inequality: "range",
    Function: "function",
}


def kind_of(value: FeelValue) -> str:
    """Return FEEL's name of a value's kind; "unknown" for any other Python object."""
    return KINDS.get(type(value), "unknown")


def as_list(value: FeelValue) -> list[FeelValue]:
    """Return a list unchanged, and any other value as a list of one item."""
    return value if isinstance(value, list) else [value]


def both(first: bool | None, second: bool | None) -> bool | None:
    """Combine two results as `and` does: false if a result is false, otherwise null if a result is null."""
    if first is False or second is False:
        return False
    return None if first is None or second is None else True


def opposite(result: FeelValue) -> bool | None:
    """Return the opposite of true or false, and null for null, as `not` does."""
    return None if result is None else not result


def equal(left: FeelValue, right: FeelValue, budget: Budget, depth: int = 0) -> bool | None:
    """Return whether two values are equal; None if their kinds differ. Null is equal only to null.

    source:  DMN 1.5, 10.3.2.13
    errors:  TooLong  the values are too large or too deep to compare
    """
    if left is None or right is None:
        return left is right
    if KINDS.get(type(left)) != KINDS.get(type(right)) or kind_of(left) == "unknown":
        return None
    budget.spend(1)
    check_depth(depth)
    if compare := EQUALITIES.get(type(left)):
        return compare(left, right, budget, depth)
    left_key, right_key = order_key(left), order_key(right)
    return bool(left == right if left_key is None else left_key == right_key)


def less(left: FeelValue, right: FeelValue) -> bool | None:
    """Return whether `left` comes before `right`.

    The result is None if the values have no order, such as different kinds, null or lists.
    """
    if KINDS.get(type(left)) != KINDS.get(type(right)):
        return None
    left_key, right_key = order_key(left), order_key(right)
    if left_key is None or right_key is None or left_key[0] != right_key[0]:
        return None
    is_less: bool = left_key[1] < right_key[1]
    return is_less


def order_key(value: FeelValue) -> tuple[object, Any] | None:
    """Return a value's sort key, which has a group and a number or text; None if values of this kind have no order.

    shape:   values of two groups, such as times with and without a zone, have no order and are not equal
    """
    make = ORDER_KEYS.get(type(value))
    return make(value) if make else None


def number_key(number: int | Decimal) -> str:
    """Return the same text for equal numbers.

    Numbers are not safe as keys of a dict, because an attacker can choose many numbers with the same hash.
    """
    return str(EXACT.normalize(Decimal(number)))


def identity(value: FeelValue, budget: Budget, depth: int = 0) -> object:
    """Return the same key for equal values, so that one pass finds the distinct values of a list."""
    check_depth(depth)
    budget.spend(1)
    match value:
        case list():
            return "list", *(identity(item, budget, depth + 1) for item in value)
        case dict():
            return "context", frozenset((key, identity(item, budget, depth + 1)) for key, item in value.items())
        case str():
            budget.spend_on_text(len(value))
        case Range():
            ends = identity(value.start, budget, depth + 1), identity(value.end, budget, depth + 1)
            return "range", *ends, value.has_start, value.has_end, value.is_test
        case Inequality():
            return "unlike", identity(value.value, budget, depth + 1)
        case int() | Decimal() if not isinstance(value, bool):
            return "number", number_key(value)
    key = order_key(value)
    return (kind_of(value), *(key or (value if isinstance(value, bool) else id(value),)))


def _equal_lists(left: list[FeelValue], right: list[FeelValue], budget: Budget, depth: int) -> bool:
    return left is right or (
        len(left) == len(right)
        and all(equal(mine, other, budget, depth + 1) is True for mine, other in zip(left, right, strict=True))
    )


def _equal_contexts(left: dict[str, FeelValue], right: dict[str, FeelValue], budget: Budget, depth: int) -> bool:
    budget.spend_on_list(len(left))
    return left is right or (
        left.keys() == right.keys()
        and all(equal(item, right[key], budget, depth + 1) is True for key, item in left.items())
    )


def _equal_ranges(left: Range, right: FeelValue, budget: Budget, depth: int) -> bool:
    return (
        isinstance(right, Range)
        and (left.has_start, left.has_end, left.is_test) == (right.has_start, right.has_end, right.is_test)
        and _equal_ends(left.start, right.start, budget, depth)
        and _equal_ends(left.end, right.end, budget, depth)
    )


def _equal_ends(left: FeelValue, right: FeelValue, budget: Budget, depth: int) -> bool:
    return (
        left is right
        if isinstance(left, Open) or isinstance(right, Open)
        else equal(left, right, budget, depth + 1) is True
    )


def _equal_inequalities(left: Inequality, right: FeelValue, budget: Budget, depth: int) -> bool:
    return isinstance(right, Inequality) and equal(left.value, right.value, budget, depth + 1) is True


def _equal_texts(left: str, right: str, budget: Budget, depth: int) -> bool:  # noqa: ARG001 the common signature
    if len(left) != len(right):
        return False
    budget.spend(len(left) // TEXT_CHARS_PER_STEP)
    return left == right


EQUALITIES: dict[type, Callable[[Any, Any, Budget, int], bool]] = {
    list: _equal_lists,
    dict: _equal_contexts,
    Range: _equal_ranges,
    Inequality: _equal_inequalities,
    str: _equal_texts,
}
ORDER_KEYS: dict[type, Callable[[Any], tuple[object, Any]]] = {
    int: lambda number: (None, number),
    Decimal: lambda number: (None, number),
    str: lambda text: (None, text),
    Date: lambda date: (None, date.number),
    Time: lambda time: (time.zone is None, time.ns - (time.offset_s or 0) * SECOND_NS),
    DateTime: lambda moment: (moment.zone is None, moment.utc_ns),
    Months: lambda length: (None, length.months),
    Elapsed: lambda length: (None, length.ns),
}
