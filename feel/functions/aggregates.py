"""Compute one value from all items of a list, such as the smallest, the sum, the average, or whether all are true."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from shardclock_server.feel.arithmetic import CONTEXT, Number, add, divide, finite, multiply, subtract
from shardclock_server.feel.budget import Budget
from shardclock_server.feel.functions.registry import counted
from shardclock_server.feel.temporal import Elapsed, Months
from shardclock_server.feel.values import NUMBER, FeelValue, less, number_key

Items = list[FeelValue]


@counted("min", "list: list")
@counted("min", "*list: list")
def minimum(budget: Budget, items: Items) -> FeelValue:
    """Find the smallest item; null if the items have no order."""
    return _first_of(budget, items, less)


@counted("max", "list: list")
@counted("max", "*list: list")
def maximum(budget: Budget, items: Items) -> FeelValue:
    """Find the largest item; null if the items have no order."""
    return _first_of(budget, items, lambda left, right: less(right, left))


@counted("sum", "list: list")
@counted("sum", "*list: list")
def total(budget: Budget, items: Items) -> FeelValue:
    """Add numbers, or durations of one kind; null for an empty list."""
    budget.spend_on_list(len(items))
    if not items or not all(type(item) in NUMBER or isinstance(item, Months | Elapsed) for item in items):
        return None
    result, *rest = items
    for item in rest:
        result = add(result, item, budget)
    return result


@counted("product", "list: list")
@counted("product", "*list: list")
def product(budget: Budget, items: Items) -> FeelValue:
    """Multiply numbers; null for an empty list."""
    numbers = _numbers(budget, items)
    result: FeelValue = 1
    for number in numbers or ():
        result = multiply(result, number, budget)
    return result if numbers else None


@counted("mean", "list: list")
@counted("mean", "*list: list")
def mean(budget: Budget, items: Items) -> FeelValue:
    """Return the average; null for an empty list."""
    return divide(total(budget, items), len(items), budget)


@counted("median", "list: list")
@counted("median", "*list: list")
def median(budget: Budget, items: Items) -> FeelValue:
    """Return the number in the middle, or the average of the two middle numbers; null for an empty list."""
    numbers = sorted(_numbers(budget, items) or [])
    if not numbers:
        return None
    middle = len(numbers) // 2
    if len(numbers) % 2:
        return numbers[middle]
    return divide(add(numbers[middle - 1], numbers[middle], budget), 2, budget)


@counted("stddev", "list: list")
@counted("stddev", "*list: list")
def stddev(budget: Budget, items: Items) -> FeelValue:
    """Return the standard deviation of a sample; null for less than two numbers."""
    numbers = _numbers(budget, items)
    if numbers is None or len(numbers) < 2:
        return None
    average = mean(budget, items)
    budget.spend(4 * len(numbers))
    squares: FeelValue = 0
    for number in numbers:
        distance = subtract(number, average, budget)
        squares = add(squares, multiply(distance, distance, budget), budget)
    variance = divide(squares, len(numbers) - 1, budget)
    return finite(CONTEXT.sqrt(variance)) if type(variance) in NUMBER else None  # type: ignore[arg-type] # a number


@counted("mode", "list: list")
@counted("mode", "*list: list")
def mode(budget: Budget, items: Items) -> FeelValue:
    """List the most frequent numbers in ascending order."""
    numbers = _numbers(budget, items)
    if numbers is None:
        return None
    keys = [number_key(number) for number in numbers]
    counts = Counter(keys)
    most = max(counts.values(), default=0)
    firsts = dict(zip(reversed(keys), reversed(numbers), strict=True))
    return sorted(number for key, number in firsts.items() if counts[key] == most)


@counted("all", "list: list")
@counted("all", "*list: list")
def every(budget: Budget, items: Items) -> bool | None:
    """Return whether all items are true: false if one item is false, else null if one item is not a boolean."""
    budget.spend_on_list(len(items))
    if any(item is False for item in items):
        return False
    return True if all(item is True for item in items) else None


@counted("any", "list: list")
@counted("any", "*list: list")
def some(budget: Budget, items: Items) -> bool | None:
    """Return whether at least one item is true: true if one item is true, else null if one item is not a boolean."""
    budget.spend_on_list(len(items))
    if any(item is True for item in items):
        return True
    return False if all(item is False for item in items) else None


def _first_of(budget: Budget, items: Items, is_before: Callable[[FeelValue, FeelValue], bool | None]) -> FeelValue:
    budget.spend_on_list(len(items))
    if not items:
        return None
    first, *rest = items
    if not rest:
        return first if less(first, first) is not None else None
    for item in rest:
        before = is_before(item, first)
        if before is None:
            return None
        first = item if before else first
    return first


def _numbers(budget: Budget, items: Items) -> list[Number] | None:
    budget.spend_on_list(len(items))
    numbers: list[Number] = []
    for item in items:
        if type(item) not in NUMBER:
            return None
        numbers.append(item)  # type: ignore[arg-type] # its type is one of a number's
    return numbers
