"""Count, search, order, cut and join lists."""

from __future__ import annotations

from collections.abc import Callable
from functools import cmp_to_key

from shardclock_server.feel.arithmetic import Number, clamped
from shardclock_server.feel.budget import Budget
from shardclock_server.feel.functions.registry import builtin, counted
from shardclock_server.feel.values import FeelValue, Function, as_list, equal, identity, kind_of, order_key

Items = list[FeelValue]


@builtin("count", "list: list")
def count(items: Items) -> int:
    """Count the items."""
    return len(items)


@builtin("is empty", "list: list")
def is_empty(items: Items) -> bool:
    """Return whether a list has no items."""
    return not items


@counted("list contains", "list: list, element: Any")
def list_contains(budget: Budget, items: Items, element: FeelValue) -> bool:
    """Return whether one of the items equals a value."""
    budget.spend_on_list(len(items))
    return any(equal(item, element, budget) for item in items)


@counted("sublist", "list: list, start position: number")
@counted("sublist", "list: list, start position: number, length: number")
def sublist(budget: Budget, items: Items, start: Number, length: Number | None = None) -> Items | None:
    """Return a section of a list; the first item has the position 1, the last item -1."""
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
    """Join lists, and keep the first item of each value."""
    joined = concatenate(budget, arguments)
    return None if joined is None else distinct_values(budget, joined)


@counted("distinct values", "list: list")
def distinct_values(budget: Budget, items: Items) -> Items:
    """Keep the first item of each value."""
    first: dict[object, FeelValue] = {}
    for item in items:
        first.setdefault(identity(item, budget), item)
    return list(first.values())


@counted("duplicate values", "list: list")
def duplicate_values(budget: Budget, items: Items) -> Items:
    """List each value that occurs more than once."""
    keys = [identity(item, budget) for item in items]
    counts: dict[object, int] = {}
    for key in keys:
        counts[key] = counts.get(key, 0) + 1
    return distinct_values(budget, [item for item, key in zip(items, keys, strict=True) if counts[key] > 1])


@counted("flatten", "list: list")
def flatten(budget: Budget, items: Items) -> Items:
    """Replace each inner list by its items, at every depth."""
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
    """Insert an item before the item at a position."""
    index = _index(items, position)
    return None if index is None else _made(budget, [*items[:index], new, *items[index:]])


@counted("remove", "list: list, position: number")
def remove(budget: Budget, items: Items, position: Number) -> Items | None:
    """Remove the item at a position."""
    index = _index(items, position)
    return None if index is None else _made(budget, items[:index] + items[index + 1 :])


@counted("list replace", "list: list, position: number, newItem: Any")
def list_replace(budget: Budget, items: Items, position: Number | Function, new: FeelValue) -> Items | None:
    """Replace the item at a position."""
    assert not isinstance(position, Function)
    index = _index(items, position)
    return None if index is None else _made(budget, [*items[:index], new, *items[index + 1 :]])


@counted("list replace", "list: list, match: function, newItem: Any")
def list_replace_matches(budget: Budget, items: Items, match: Function, new: FeelValue) -> Items | None:
    """Replace each item for which `match` is true; `match` gets the old item and the new item."""
    matches = [match.call(budget, [item, new]) for item in items]
    if not all(isinstance(is_match, bool) for is_match in matches):
        return None
    return [new if is_match else item for item, is_match in zip(items, matches, strict=True)]


@counted("reverse", "list: list")
def reverse(budget: Budget, items: Items) -> Items:
    """Reverse the order."""
    return _made(budget, items[::-1])


@counted("index of", "list: list, match: Any")
def index_of(budget: Budget, items: Items, match: FeelValue) -> Items:
    """List the positions of the items that equal a value."""
    budget.spend_on_list(len(items))
    return [position for position, item in enumerate(items, 1) if equal(item, match, budget)]


@counted("partition", "list: list, size: number")
def partition(budget: Budget, items: Items, size: Number) -> Items | None:
    """Split a list into lists of `size` items; the last list may be shorter."""
    budget.spend_on_list(len(items))
    step = clamped(size)
    return [items[start : start + step] for start in range(0, len(items), step)] if step > 0 else None


@counted("sort", "list: list")
def sort(budget: Budget, items: Items) -> Items | None:
    """Sort items in their natural order; null if the items have no order."""
    budget.spend_on_list(len(items))
    keys = [order_key(item) for item in items]
    families = {(kind_of(item), key and key[0]) for item, key in zip(items, keys, strict=True)}
    if len(families) > 1 or None in keys:
        return None
    order = sorted(range(len(items)), key=lambda index: keys[index][1])  # type: ignore[index] # all are of one kind
    return [items[index] for index in order]


@counted("sort", "list: list, precedes: function")
def sort_by(budget: Budget, items: Items, precedes: Function) -> Items | None:
    """Sort items with a function of two items, which returns true if the first item comes before the second."""
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


def _index(items: Items, position: Number) -> int | None:
    """Convert a position to Python's index; None if the position is outside the list."""
    index = clamped(position)
    if not index or abs(index) > len(items):
        return None
    return index - 1 if index > 0 else len(items) + index


def _made(budget: Budget, items: Items) -> Items:
    budget.spend_on_list(len(items))
    return items
