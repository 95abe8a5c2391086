"""Compile literals, names, paths, filters, lists, contexts, ranges and `if`."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from shardclock_server.feel.arithmetic import position
from shardclock_server.feel.budget import Budget
from shardclock_server.feel.code import Code, Place, Scope, cost_of
from shardclock_server.feel.functions.dates import property_of
from shardclock_server.feel.syntax import Condition, Constant, ContextOf, Filter, ListOf, Name, Path, Span, Test
from shardclock_server.feel.values import NUMBER, OPEN, FeelValue, Range, Unlike, as_list


def compile_constant(node: Constant, place: Place) -> Code:  # noqa: ARG001 as all compilers
    """Compile a literal."""
    value = node.value
    return lambda scope: value  # noqa: ARG005 as all code


def compile_name(node: Name, place: Place) -> Code:
    """Compile a name: the innermost value of it, else null, also if a function has that name."""
    name = node.name
    if name == "partial" and place.has_partial:
        return _copied_partial
    if name not in place.bound:
        place.free.add(name)
    if place.is_outermost:
        return lambda scope: scope.names.get(name)
    return lambda scope: found(scope, name)


def found(scope: Scope, name: str) -> FeelValue:
    """Find the innermost value of a name; null if there is none."""
    inner: Scope | None = scope
    while inner is not None:
        if name in inner.names:
            return inner.names[name]
        inner = inner.outer
    return None


def compile_path(node: Path, place: Place) -> Code:
    """Compile `base.key`: an entry of a context, a part of a date, or of a list the entries of its items."""
    base, key = place.code(node.base), node.key

    def code(scope: Scope) -> FeelValue:
        value = base(scope)
        return value.get(key) if type(value) is dict else _part(value, key, scope.budget)

    return code


def compile_filter(node: Filter, place: Place) -> Code:
    """Compile `base[condition]`: the item of that number, or the items for which the condition is true."""
    is_partial = isinstance(node.base, Name) and node.base.name == "partial" and place.has_partial
    base: Code = _live_partial if is_partial else place.code(node.base)
    condition = place.within("item").code(node.condition)
    cost = cost_of(node.condition)
    if isinstance(node.condition, Constant) and type(number := node.condition.value) in NUMBER:
        return lambda scope: _item(base(scope), number)

    def code(scope: Scope) -> FeelValue:
        value = base(scope)
        if value is None:
            return None
        items = as_list(value)
        kept = []
        for place_of, item in enumerate(items or [None]):
            scope.budget.spend(cost)
            inner = scope.within({"item": item})
            answer = condition(inner.within(item) if type(item) is dict else inner)
            if place_of == 0 and type(answer) in NUMBER:
                return _item(items, answer)
            if answer is True and items:
                kept.append(item)
        return kept

    return code


def compile_list(node: ListOf, place: Place) -> Code:
    """Compile `[item, …]`."""
    items = [place.code(item) for item in node.items]
    return lambda scope: [item(scope) for item in items]


def compile_context(node: ContextOf, place: Place) -> Code:
    """Compile `{key: value, …}`."""
    codes = []
    place = place.within(coming=[key for key, _ in node.entries])
    for key, value in node.entries:
        codes.append((key, place.code(value)))
        place = place.within(key)

    def code(scope: Scope) -> FeelValue:
        made: dict[str, FeelValue] = {}
        inner = scope.within(made)
        for key, value in codes:
            made[key] = value(inner)
        return made

    return code


def compile_span(node: Span, place: Place) -> Code:
    """Compile a range; its ends are of one kind, or null."""
    start, end, has_start, has_end = place.code(node.start), place.code(node.end), node.has_start, node.has_end
    return lambda scope: Range(start(scope), end(scope), has_start, has_end)


def compile_test(node: Test, place: Place) -> Code:
    """Compile `(< 10)` and the like as a value."""
    operand, operator = place.code(node.operand), node.operator
    match operator:
        case "<" | "<=":
            return lambda scope: Range(OPEN, operand(scope), has_start=False, has_end=operator == "<=")
        case ">" | ">=":
            return lambda scope: Range(operand(scope), OPEN, has_start=operator == ">=", has_end=False)
        case "!=":
            return lambda scope: Unlike(operand(scope))
    return lambda scope: _only(operand(scope))


def compile_condition(node: Condition, place: Place) -> Code:
    """Compile `if`; what is not true takes the way of else."""
    test, yes, no = place.code(node.test), place.code(node.yes), place.code(node.no)
    return lambda scope: yes(scope) if test(scope) is True else no(scope)


def _live_partial(scope: Scope) -> FeelValue:
    return found(scope, "partial")


def _copied_partial(scope: Scope) -> FeelValue:
    """Copy the results so far, since the loop goes on to add to them."""
    results = found(scope, "partial")
    assert isinstance(results, list)
    scope.budget.spend(len(results) // 32)
    return results.copy()


def _part(value: FeelValue, key: str, budget: Budget) -> FeelValue:
    match value:
        case list():
            budget.spend_on_list(len(value))
            return [item.get(key) if type(item) is dict else _part_of_one(item, key) for item in value]
        case _:
            return _part_of_one(value, key)


def _part_of_one(value: FeelValue, key: str) -> FeelValue:
    match value:
        case dict():
            return value.get(key)
        case Range(start, end, has_start, has_end):
            parts = {"start included": has_start, "end included": has_end}
            ends = {"start": None if start is OPEN else start, "end": None if end is OPEN else end}
            return (parts | ends).get(key)
    return property_of(value, key)


def _item(value: FeelValue, number: FeelValue) -> FeelValue:
    """Pick an item by its number; null if there is no such item, or the number is not whole. 1.0 is whole."""
    assert isinstance(number, int | Decimal)
    place = position(number)
    if value is None or not place:
        return None
    items: Sequence[FeelValue] = as_list(value)
    if abs(place) > len(items):
        return None
    return items[place - 1 if place > 0 else place]


def _only(value: FeelValue) -> FeelValue:
    return Range(value, value, has_start=True, has_end=True, is_test=True)
