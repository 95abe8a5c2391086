"""Compile literals, names, paths, filters, lists, contexts, ranges and `if`."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from shardclock_server.feel.arithmetic import position
from shardclock_server.feel.budget import Budget
from shardclock_server.feel.code import Code, CompileScope, Scope, cost_of
from shardclock_server.feel.functions.dates import property_of
from shardclock_server.feel.syntax import (
    Condition,
    Constant,
    ContextOf,
    FilterExpression,
    ListOf,
    Name,
    Path,
    RangeOf,
    UnaryTest,
)
from shardclock_server.feel.values import NUMBER, OPEN, FeelValue, Inequality, Range, as_list


def compile_constant(node: Constant, compile_scope: CompileScope) -> Code:  # noqa: ARG001 the signature of all compilers
    """Compile a literal."""
    value = node.value
    return lambda scope: value  # noqa: ARG005 the signature of all code


def compile_name(node: Name, compile_scope: CompileScope) -> Code:
    """Compile a name to its value in the innermost scope.

    A name without a value is null, even if it names a function.
    """
    name = node.name
    if name == "partial" and compile_scope.has_partial:
        return _copied_partial
    if name not in compile_scope.bound:
        compile_scope.free.add(name)
    if compile_scope.is_outermost:
        return lambda scope: scope.names.get(name)
    return lambda scope: found(scope, name)


def found(scope: Scope, name: str) -> FeelValue:
    """Find the value of a name in the innermost scope that has the name; null if no scope has the name."""
    inner: Scope | None = scope
    while inner is not None:
        if name in inner.names:
            return inner.names[name]
        inner = inner.outer
    return None


def compile_path(node: Path, compile_scope: CompileScope) -> Code:
    """Compile `base.key`: an entry of a context or a component of a date.

    If `base` is a list, the value is a list with one result for each item.
    """
    base, key = compile_scope.code(node.base), node.key

    def code(scope: Scope) -> FeelValue:
        value = base(scope)
        return value.get(key) if type(value) is dict else _part(value, key, scope.budget)

    return code


def compile_filter(node: FilterExpression, compile_scope: CompileScope) -> Code:
    """Compile `base[condition]`, which selects items.

    A number selects the item at that position; any other condition selects the items for which it is true.
    """
    is_partial = isinstance(node.base, Name) and node.base.name == "partial" and compile_scope.has_partial
    base: Code = _live_partial if is_partial else compile_scope.code(node.base)
    condition = compile_scope.within("item").code(node.condition)
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


def compile_list(node: ListOf, compile_scope: CompileScope) -> Code:
    """Compile `[item, …]`."""
    items = [compile_scope.code(item) for item in node.items]
    return lambda scope: [item(scope) for item in items]


def compile_context(node: ContextOf, compile_scope: CompileScope) -> Code:
    """Compile `{key: value, …}`."""
    codes = []
    compile_scope = compile_scope.within(later_names=[key for key, _ in node.entries])
    for key, value in node.entries:
        codes.append((key, compile_scope.code(value)))
        compile_scope = compile_scope.within(key)

    def code(scope: Scope) -> FeelValue:
        made: dict[str, FeelValue] = {}
        inner = scope.within(made)
        for key, value in codes:
            made[key] = value(inner)
        return made

    return code


def compile_range(node: RangeOf, compile_scope: CompileScope) -> Code:
    """Compile a range."""
    start, end, has_start, has_end = (
        compile_scope.code(node.start),
        compile_scope.code(node.end),
        node.has_start,
        node.has_end,
    )
    return lambda scope: Range(start(scope), end(scope), has_start, has_end)


def compile_unary_test(node: UnaryTest, compile_scope: CompileScope) -> Code:
    """Compile a comparison in parentheses, such as `(< 10)`, as a value."""
    operand, operator = compile_scope.code(node.operand), node.operator
    match operator:
        case "<" | "<=":
            return lambda scope: Range(OPEN, operand(scope), has_start=False, has_end=operator == "<=")
        case ">" | ">=":
            return lambda scope: Range(operand(scope), OPEN, has_start=operator == ">=", has_end=False)
        case "!=":
            return lambda scope: Inequality(operand(scope))
    return lambda scope: _only(operand(scope))


def compile_condition(node: Condition, compile_scope: CompileScope) -> Code:
    """Compile `if`; each value of the condition except true selects `else`."""
    test, yes, no = compile_scope.code(node.test), compile_scope.code(node.yes), compile_scope.code(node.no)
    return lambda scope: yes(scope) if test(scope) is True else no(scope)


def _live_partial(scope: Scope) -> FeelValue:
    return found(scope, "partial")


def _copied_partial(scope: Scope) -> FeelValue:
    """Copy the loop's results so far, because the loop appends later results to its own list."""
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
    """Return the item at a position.

    The result is null if the position is outside the list or has decimals. A position of 1.0 counts as 1.
    """
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
