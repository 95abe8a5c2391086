"""Compile arithmetic, comparison, logic and the tests of `in`, with a fast path for numbers and short texts."""

from __future__ import annotations

from collections.abc import Callable

from shardclock_server.feel import arithmetic
from shardclock_server.feel.arithmetic import INT_END, whole
from shardclock_server.feel.budget import TEXT_CHARS_PER_STEP
from shardclock_server.feel.code import Code, CompileScope, Scope
from shardclock_server.feel.ranges import passes
from shardclock_server.feel.syntax import Between, Binary, In, InstanceOf, Logic, Negation, UnaryTest
from shardclock_server.feel.types import is_instance
from shardclock_server.feel.values import NUMBER, FeelValue, both, equal, less, opposite

OPERATIONS = {
    "-": arithmetic.subtract,
    "*": arithmetic.multiply,
    "/": arithmetic.divide,
    "**": arithmetic.power,
}


def compile_binary(node: Binary, compile_scope: CompileScope) -> Code:
    """Compile arithmetic or a comparison."""
    left, right = compile_scope.code(node.left), compile_scope.code(node.right)
    if make := FAST_OPERATORS.get(node.operator):
        return make(left, right)
    operation = OPERATIONS[node.operator]
    return lambda scope: operation(left(scope), right(scope), scope.budget)


def compile_negation(node: Negation, compile_scope: CompileScope) -> Code:
    """Compile a minus sign."""
    operand = compile_scope.code(node.operand)
    return lambda scope: arithmetic.negate(operand(scope))


def compile_logic(node: Logic, compile_scope: CompileScope) -> Code:
    """Compile `and` or `or`; each value except true and false counts as null."""
    decisive = node.operator == "or"
    operands = [compile_scope.code(operand) for operand in node.operands]
    if len(operands) == 2:
        return _logic_of_two(*operands, decisive=decisive)

    def code(scope: Scope) -> FeelValue:
        answer: bool | None = not decisive
        for operand in operands:
            value = operand(scope)
            if value is decisive:
                return value
            if value is not (not decisive):
                answer = None
        return answer

    return code


def compile_between(node: Between, compile_scope: CompileScope) -> Code:
    """Compile `value >= low and value <= high`."""
    value, low, high = compile_scope.code(node.value), compile_scope.code(node.low), compile_scope.code(node.high)

    def code(scope: Scope) -> FeelValue:
        found = value(scope)
        below, above = less(found, low(scope)), less(high(scope), found)
        return both(opposite(below), opposite(above))

    return code


def compile_in(node: In, compile_scope: CompileScope) -> Code:
    """Compile `in`: true if one of the tests is true, otherwise null if a test is null, otherwise false."""
    value = compile_scope.code(node.value)
    tests = [
        _test(test, compile_scope) if isinstance(test, UnaryTest) else _membership(compile_scope.code(test))
        for test in node.tests
    ]
    if len(tests) == 1:
        only = tests[0]
        return lambda scope: only(scope, value(scope))

    def code(scope: Scope) -> FeelValue:
        found = value(scope)
        answers = [test(scope, found) for test in tests]
        return True if True in answers else None if None in answers else False

    return code


def compile_instance(node: InstanceOf, compile_scope: CompileScope) -> Code:
    """Compile `instance of`."""
    value, wanted = compile_scope.code(node.value), node.type
    return lambda scope: is_instance(value(scope), wanted, scope.budget)


def _sum(left: Code, right: Code) -> Code:
    def code(scope: Scope) -> FeelValue:
        first, second = left(scope), right(scope)
        if type(first) is int and type(second) is int:
            number = first + second
            return number if -INT_END < number < INT_END else whole(number)
        return arithmetic.add(first, second, scope.budget)

    return code


def _equality(left: Code, right: Code) -> Code:
    def code(scope: Scope) -> FeelValue:
        first, second = left(scope), right(scope)
        kind = type(first)
        if kind is type(second):
            if kind is int or kind is bool:
                return first == second
            if kind is str and len(first) < TEXT_CHARS_PER_STEP:  # type: ignore[arg-type] # it is a text
                return first == second
        return equal(first, second, scope.budget)

    return code


def _order(left: Code, right: Code) -> Code:
    """Compile `left < right`."""

    def code(scope: Scope) -> FeelValue:
        first, second = left(scope), right(scope)
        kind = type(first)
        if kind in NUMBER and type(second) in NUMBER:
            return first < second  # type: ignore[operator] # both are numbers
        if kind is str:
            scope.budget.spend(len(first) // TEXT_CHARS_PER_STEP)  # type: ignore[arg-type] # it is a text
        return less(first, second)

    return code


def _logic_of_two(left: Code, right: Code, *, decisive: bool) -> Code:
    other = not decisive

    def code(scope: Scope) -> FeelValue:
        first = left(scope)
        if first is decisive:
            return first
        second = right(scope)
        if second is decisive:
            return second
        return other if first is other and second is other else None

    return code


def _not(code: Code) -> Code:
    return lambda scope: opposite(code(scope))


FAST_OPERATORS: dict[str, Callable[[Code, Code], Code]] = {
    "+": _sum,
    "=": _equality,
    "!=": lambda left, right: _not(_equality(left, right)),
    "<": _order,
    ">": lambda left, right: _order(right, left),
    "<=": lambda left, right: _not(_order(right, left)),
    ">=": lambda left, right: _not(_order(left, right)),
}


def _test(node: UnaryTest, compile_scope: CompileScope) -> Callable[[Scope, FeelValue], bool | None]:
    operand = compile_scope.code(node.operand)
    match node.operator:
        case "=":
            return lambda scope, value: equal(value, operand(scope), scope.budget)
        case "!=":
            return lambda scope, value: opposite(equal(value, operand(scope), scope.budget))
        case "<":
            return lambda scope, value: less(value, operand(scope))
        case ">":
            return lambda scope, value: less(operand(scope), value)
        case "<=":
            return lambda scope, value: opposite(less(operand(scope), value))
    return lambda scope, value: opposite(less(value, operand(scope)))


def _membership(test: Code) -> Callable[[Scope, FeelValue], bool | None]:
    return lambda scope, value: passes(value, test(scope), scope.budget)
