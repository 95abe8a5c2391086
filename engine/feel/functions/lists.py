"""Count, sum, order, cut and join lists."""

from __future__ import annotations

from collections.abc import Callable
from functools import cmp_to_key

from engine.feel.arithmetic import CONTEXT, Number, add, clamped, divide, finite, multiply, subtract
from engine.feel.budget import Budget
from engine.feel.functions.registry import builtin, counted
from engine.feel.temporal import Elapsed, Months
from engine.feel.values import NUMBER, FeelValue, Function, as_list, equal, identity, kind_of, less, order_key

Items = list[FeelValue]


@builtin("count", "list: list")
def count(items: Items) -> int:
    """Count the items."""
    return len(items)


@builtin("is empty", "list: list")
def is_empty(items: Items) -> bool:
    """Say whether there are no items."""
    return not items


@counted("list contains", "list: list, element: Any")
def list_contains(budget: Budget, items: Items, element: FeelValue) -> bool:
    """Say whether one of the items equals a value."""
    budget.spend_on_list(len(items))
    return any(equal(item, element, budget) for item in items)


@counted("min", "list: list")
@counted("min", "*list: list")
def minimum(budget: Budget, items: Items) -> FeelValue:
    """Find the smallest item; null if they have no order."""
    return _first_of(budget, items, less)


@counted("max", "list: list")
@counted("max", "*list: list")
def maximum(budget: Budget, items: Items) -> FeelValue:
    """Find the largest item; null if they have no order."""
    return _first_of(budget, items, lambda left, right: less(right, left))


@counted("sum", "list: list")
@counted("sum", "*list: list")
def total(budget: Budget, items: Items) -> FeelValue:
    """Add numbers, or durations of one kind; null of nothing."""
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
    """Multiply numbers; null of nothing."""
    numbers = _numbers(budget, items)
    result: FeelValue = 1
    for number in numbers or ():
        result = multiply(result, number, budget)
    return result if numbers else None


@counted("mean", "list: list")
@counted("mean", "*list: list")
def mean(budget: Budget, items: Items) -> FeelValue:
    """Return the average; null of nothing."""
    return divide(total(budget, items), len(items), budget)


@counted("median", "list: list")
@counted("median", "*list: list")
def median(budget: Budget, items: Items) -> FeelValue:
    """Return the number in the middle, or the average of the two there; null of nothing."""
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
    """Return the standard deviation of a sample; null of less than two numbers."""
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
    """List the numbers that are there most often, in order."""
    numbers = _numbers(budget, items)
    if numbers is None:
        return None
    counts: dict[Number, int] = {}
    for number in numbers:
        counts[number] = counts.get(number, 0) + 1
    most = max(counts.values(), default=0)
    return sorted(number for number, times in counts.items() if times == most)


@counted("all", "list: list")
@counted("all", "*list: list")
def every(budget: Budget, items: Items) -> bool | None:
    """Say whether all items are true; null if one is neither true nor false, and none is false."""
    budget.spend_on_list(len(items))
    if any(item is False for item in items):
        return False
    return True if all(item is True for item in items) else None


@counted("any", "list: list")
@counted("any", "*list: list")
def some(budget: Budget, items: Items) -> bool | None:
    """Say whether one item is true; null if one is neither true nor false, and none is true."""
    budget.spend_on_list(len(items))
    if any(item is True for item in items):
        return True
    return False if all(item is False for item in items) else None


@counted("sublist", "list: list, start position: number")
@counted("sublist", "list: list, start position: number, length: number")
def sublist(budget: Budget, items: Items, start: Number, length: Number | None = None) -> Items | None:
    """Cut out a part; the first item has the position 1, the last one -1."""
    first = _index(items, start)
    if first is None or (length is not None and length < 0):
        return None
    part = items[first : None if length is None else first + clamped(length)]
    budget.spend_on_list(len(part))
    return part


@counted("append", "*list: list")
def append(budget: Budget, arguments: Items) -> Items | None:
    """Add items at the end of a list."""
    if not arguments or arguments[0] is None:
        return None
    return _made(budget, [*as_list(arguments[0]), *arguments[1:]])


@counted("concatenate", "*list: list")
def concatenate(budget: Budget, arguments: Items) -> Items | None:
    """Join lists."""
    if any(argument is None for argument in arguments):
        return None
    budget.spend_on_list(sum(len(as_list(argument)) for argument in arguments))
    return [item for argument in arguments for item in as_list(argument)]


@counted("union", "*list: list")
def union(budget: Budget, arguments: Items) -> Items | None:
    """Join lists, and keep the first of each value."""
    joined = concatenate(budget, arguments)
    return None if joined is None else distinct_values(budget, joined)


@counted("distinct values", "list: list")
def distinct_values(budget: Budget, items: Items) -> Items:
    """Keep the first of each value."""
    first: dict[object, FeelValue] = {}
    for item in items:
        first.setdefault(identity(item, budget), item)
    return list(first.values())


@counted("duplicate values", "list: list")
def duplicate_values(budget: Budget, items: Items) -> Items:
    """List each value that is there more than once."""
    keys = [identity(item, budget) for item in items]
    counts: dict[object, int] = {}
    for key in keys:
        counts[key] = counts.get(key, 0) + 1
    return distinct_values(budget, [item for item, key in zip(items, keys, strict=True) if counts[key] > 1])


@counted("flatten", "list: list")
def flatten(budget: Budget, items: Items) -> Items:
    """Put the items of lists within the list in their place, however deep."""
    flat: Items = []
    open_lists = [iter(items)]
    while open_lists:
        for item in open_lists[-1]:
            budget.spend(1)
            if isinstance(item, list):
                open_lists.append(iter(item))
                break
            flat.append(item)
        else:
            open_lists.pop()
    return flat


@counted("insert before", "list: list, position: number, newItem: Any")
def insert_before(budget: Budget, items: Items, position: Number, new: FeelValue) -> Items | None:
    """Put an item before another one."""
    index = _index(items, position)
    return None if index is None else _made(budget, [*items[:index], new, *items[index:]])


@counted("remove", "list: list, position: number")
def remove(budget: Budget, items: Items, position: Number) -> Items | None:
    """Leave out the item at a position."""
    index = _index(items, position)
    return None if index is None else _made(budget, items[:index] + items[index + 1 :])


@counted("list replace", "list: list, position: number, newItem: Any")
def list_replace(budget: Budget, items: Items, position: Number | Function, new: FeelValue) -> Items | None:
    """Put an item in the place of another one."""
    assert not isinstance(position, Function)
    index = _index(items, position)
    return None if index is None else _made(budget, [*items[:index], new, *items[index + 1 :]])


@counted("list replace", "list: list, match: function, newItem: Any")
def list_replace_matches(budget: Budget, items: Items, match: Function, new: FeelValue) -> Items | None:
    """Put an item in the place of all for which a function of the item and the new one is true."""
    matches = [match.call(budget, [item, new]) for item in items]
    if not all(isinstance(is_match, bool) for is_match in matches):
        return None
    return [new if is_match else item for item, is_match in zip(items, matches, strict=True)]


@counted("reverse", "list: list")
def reverse(budget: Budget, items: Items) -> Items:
    """Turn the order around."""
    return _made(budget, items[::-1])


@counted("index of", "list: list, match: Any")
def index_of(budget: Budget, items: Items, match: FeelValue) -> Items:
    """List the positions of the items that equal a value."""
    budget.spend_on_list(len(items))
    return [position for position, item in enumerate(items, 1) if equal(item, match, budget)]


@counted("partition", "list: list, size: number")
def partition(budget: Budget, items: Items, size: Number) -> Items | None:
    """Cut a list into lists of a size; the last one may be shorter."""
    budget.spend_on_list(len(items))
    step = clamped(size)
    return [items[start : start + step] for start in range(0, len(items), step)] if step > 0 else None


@counted("sort", "list: list")
def sort(budget: Budget, items: Items) -> Items | None:
    """Put items in their order; null if they have none."""
    budget.spend_on_list(len(items))
    keys = [order_key(item) for item in items]
    families = {(kind_of(item), key and key[0]) for item, key in zip(items, keys, strict=True)}
    if len(families) > 1 or None in keys:
        return None
    order = sorted(range(len(items)), key=lambda index: keys[index][1])  # type: ignore[index] # of one kind
    return [items[index] for index in order]


@counted("sort", "list: list, precedes: function")
def sort_by(budget: Budget, items: Items, precedes: Function) -> Items | None:
    """Put items in the order that a function of two of them says: true if the first comes first."""
    return _sorted(budget, items, lambda left, right: precedes.call(budget, [left, right]))


def _sorted(budget: Budget, items: Items, precedes: Callable[[FeelValue, FeelValue], FeelValue]) -> Items | None:
    answers = set()

    def compare(left: FeelValue, right: FeelValue) -> int:
        budget.spend(1)
        answer = precedes(left, right)
        answers.add(answer is None)
        return -1 if answer is True else 1 if precedes(right, left) is True else 0

    result = sorted(items, key=cmp_to_key(compare))
    return None if True in answers else result


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


def _index(items: Items, position: Number) -> int | None:
    """Turn a position into Python's index; None if there is no such item."""
    index = clamped(position)
    if not index or abs(index) > len(items):
        return None
    return index - 1 if index > 0 else len(items) + index


def _made(budget: Budget, items: Items) -> Items:
    budget.spend_on_list(len(items))
    return items
