"""Check whether a value lies in a range, and list the whole numbers or dates of a range."""

from __future__ import annotations

from decimal import Decimal

from shardclock_server.feel.arithmetic import position
from shardclock_server.feel.budget import Budget
from shardclock_server.feel.temporal import Date
from shardclock_server.feel.values import OPEN, FeelValue, Inequality, Range, both, equal, less


def contains(span: Range, value: FeelValue) -> bool | None:
    """Return whether a value lies in a range.

    The result is False if one end excludes the value; otherwise None if the value can't be compared with an end.
    """
    above = True if span.start is OPEN else _in_order(span.start, value, or_equal=span.has_start)
    below = True if span.end is OPEN else _in_order(value, span.end, or_equal=span.has_end)
    return both(above, below)


def passes(value: FeelValue, test: FeelValue, budget: Budget) -> bool | None:
    """Return whether a value passes a test to the right of `in`: a range, a list of tests, or an equal value."""
    match test:
        case Range():
            return contains(test, value)
        case Inequality(other):
            same = equal(value, other, budget)
            return None if same is None else not same
        case list() if not isinstance(value, list):
            return _passes_one(value, test, budget)
        case list():
            return equal(value, test, budget) or _passes_one(value, test, budget)
    return equal(value, test, budget)


def steps_of(start: FeelValue, end: FeelValue, budget: Budget) -> list[FeelValue] | None:
    """List the whole numbers or dates from `start` to `end`, ascending or descending.

    The result is None if the ends are not two numbers or two dates.

    errors:  TooLong  the list is too long
    """
    first, last = _number(start), _number(end)
    if first is None or last is None or isinstance(start, Date) != isinstance(end, Date):
        return None
    step = 1 if first <= last else -1
    budget.spend_on_list(abs(last - first) + 1)
    numbers = range(first, last + step, step)
    return [Date.numbered(number) for number in numbers] if isinstance(start, Date) else list(numbers)


def items_of(span: Range, budget: Budget) -> list[FeelValue] | None:
    """List the whole numbers or dates of a range; None if an end is open, or if the end is before the start."""
    first, last = _number(span.start), _number(span.end)
    if first is None or last is None or first > last:
        return None
    items = steps_of(span.start, span.end, budget)
    if items is None:
        return None
    return items[0 if span.has_start else 1 : len(items) if span.has_end else -1]


def _in_order(first: FeelValue, second: FeelValue, *, or_equal: bool) -> bool | None:
    before = less(first, second)
    if before is None or before or not or_equal:
        return before
    return less(second, first) is False


def _passes_one(value: FeelValue, tests: list[FeelValue], budget: Budget) -> bool:
    budget.spend(len(tests))
    return any(passes(value, test, budget) for test in tests)


def _number(end: FeelValue) -> int | None:
    match end:
        case bool():
            return None
        case int() | Decimal():
            return position(end)
        case Date():
            return end.number
    return None
