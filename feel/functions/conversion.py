"""Convert values to texts and numbers, and replace missing values."""

from __future__ import annotations

import re

from shardclock_server.feel.arithmetic import CONTEXT, Number, whole
from shardclock_server.feel.budget import Budget
from shardclock_server.feel.functions.registry import builtin, counted
from shardclock_server.feel.refusal import AssertionFailed
from shardclock_server.feel.temporal import from_python
from shardclock_server.feel.text import text_of
from shardclock_server.feel.values import FeelValue, equal

PLAIN_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
NUMBER_CHARS_MAX = 100
NUMBER_CHARS_PER_STEP = 128  # The number of characters from which separators are removed for one step.
GROUPING = {None, " ", ",", "."}
POINTS = {None, ",", "."}


@builtin("not", "negand: boolean")
def opposite(negand: bool) -> bool:
    """Turn true into false and false into true."""
    return not negand


@counted("string", "from: Any")
def string(budget: Budget, value: FeelValue) -> str | None:
    """Write a value in FEEL's notation; return a text and null unchanged."""
    return None if value is None else text_of(value, budget)


@counted("number", "from: string")
@counted("number", "from: string, grouping separator: string?")
@counted("number", "from: string, grouping separator: string?, decimal separator: string?")
def number(budget: Budget, text: str, grouping: str | None = None, point: str | None = None) -> Number | None:
    """Read a number, with a separator for thousands and a separator for decimals."""
    budget.spend(len(text) // NUMBER_CHARS_PER_STEP)
    if grouping not in GROUPING or point not in POINTS or grouping == (point or "."):
        return None
    plain = (text.replace(grouping, "") if grouping else text).replace(point or ".", ".")
    if len(plain) > NUMBER_CHARS_MAX or not PLAIN_NUMBER.fullmatch(plain):
        return None
    if plain.lstrip("+-").isdigit():
        return whole(int(plain))
    read = CONTEXT.create_decimal(plain)
    return read if read.is_finite() else None


@counted("is", "value1: Any, value2: Any")
@counted("is", "value1: Any")
@counted("is", "value2: Any")
def is_same(budget: Budget, left: FeelValue, right: FeelValue = None) -> bool:
    """Return whether two values are equal; dates and times must also be in the same zone."""
    same = equal(left, right, budget)
    return bool(same) and (type(left) is not type(right) or not hasattr(left, "zone") or left == right)


@builtin("is defined", "value: Any")
def is_defined(value: FeelValue) -> bool:
    """Return whether a value is not null; a variable or an entry that holds null counts as not defined."""
    return value is not None


@builtin("get or else", "value: Any, default: Any")
def get_or_else(value: FeelValue, default: FeelValue) -> FeelValue:
    """Return a value, or the default for null."""
    return default if value is None else value


@builtin("assert", "value: Any, condition: Any")
@builtin("assert", "value: Any, condition: Any, cause: string")
def asserted(value: FeelValue, condition: FeelValue, cause: str = "The condition is not fulfilled") -> FeelValue:
    """Return `value` if `condition` is true.

    errors:  AssertionFailed  the condition is not true; the error has the author's message
    """
    if condition is not True:
        raise AssertionFailed(cause)
    return value


@counted("now")
def now(budget: Budget) -> FeelValue:
    """Return the moment at which the expression is evaluated."""
    return from_python(budget.now)


@counted("today")
def today(budget: Budget) -> FeelValue:
    """Return today's date, in the time zone of the evaluation's moment."""
    return from_python(budget.now).date
