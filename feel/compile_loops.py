"""Compile `for`, `some`, `every`, functions and their calls."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from shardclock_server.feel.budget import Budget
from shardclock_server.feel.code import Code, CompileScope, Scope, cost_of, height_called
from shardclock_server.feel.compile_values import found
from shardclock_server.feel.functions import FUNCTION_NAMES
from shardclock_server.feel.functions.registry import Builtin, call_first, forms_of, overloads
from shardclock_server.feel.functions.unsupported import UNSUPPORTED
from shardclock_server.feel.ranges import items_of, steps_of
from shardclock_server.feel.refusal import NotFeel
from shardclock_server.feel.syntax import FeelType, FunctionOf, Invocation, Iteration, Name, Node, RangeOf
from shardclock_server.feel.types import ANY, fitted
from shardclock_server.feel.values import FeelValue, Function, Range, as_list
from shardclock_server.timers.refusal import shortened

CALL_STEPS = 3

# A variable, its values, and whether the text writes the values as a range without brackets, such as `1..3`.
Domain = tuple[str, Code, bool]


def compile_iteration(node: Iteration, compile_scope: CompileScope) -> Code:
    """Compile `for`, `some` or `every`."""
    domains: list[Domain] = []
    if node.kind == "for":
        compile_scope = compile_scope.within("partial")
    for name, domain in node.domains:
        domains.append((name, compile_scope.code(domain), isinstance(domain, RangeOf) and domain.is_bare))
        compile_scope = compile_scope.within(name)
    body, cost = compile_scope.code(node.body), cost_of(node.body)
    if node.kind == "for":
        return _for(domains, body, cost)
    return _quantifier(domains, body, cost, decisive=node.kind == "some")


def compile_function(node: FunctionOf, compile_scope: CompileScope) -> Code:
    """Compile a function; its body can read the names that exist where the function is defined."""
    names = tuple(name for name, _ in node.parameters)
    types = [wanted or ANY for _, wanted in node.parameters]
    body = compile_scope.within(*names).code(node.body)
    cost, height = cost_of(node.body), height_called(node.body)

    def code(scope: Scope) -> FeelValue:
        def call(budget: Budget, arguments: list[FeelValue]) -> FeelValue:
            if len(arguments) != len(names):
                return None
            budget.spend(CALL_STEPS + cost)
            budget.enter(height)
            values = _fitted(arguments, types, budget)
            answer = None if values is None else body(scope.within(dict(zip(names, values, strict=True))))
            budget.leave(height)
            return answer

        return Function(names, call)

    return code


def compile_invocation(node: Invocation, compile_scope: CompileScope) -> Code:
    """Compile a call of a built-in function, or of a function that the text defines.

    The compiler does not know whether a name that the text binds is a function. If the value is not a function, the
    built-in function of that name is called.

    errors:  NotFeel  no function has that name
    """
    arguments = [compile_scope.code(argument) for argument in node.arguments]
    builtin_call = _builtin_call(node, arguments)
    if isinstance(node.function, Name) and node.function.name not in compile_scope.bound | compile_scope.later_names:
        if builtin_call is None:
            raise _unknown(compile_scope.text, node.function)
        if not overloads(node.function.name, len(arguments), node.names):
            compile_scope.mismatches.append(_mismatch(compile_scope.text, node.function, node))
        return builtin_call
    function, names = _called(node.function, compile_scope), node.names

    def code(scope: Scope) -> FeelValue:
        called = function(scope)
        if not isinstance(called, Function):
            return builtin_call(scope) if builtin_call else None
        return _call_defined(called, [argument(scope) for argument in arguments], names, scope.budget)

    return code


def _builtin_call(node: Invocation, arguments: list[Code]) -> Code | None:
    """Compile the call of a built-in function; None if no built-in function has the name."""
    if not isinstance(node.function, Name) or node.function.name not in FUNCTION_NAMES:
        return None
    return _call_builtin(overloads(node.function.name, len(arguments), node.names), arguments, node.names)


def _called(node: Node, compile_scope: CompileScope) -> Code:
    if isinstance(node, Name):
        name = node.name  # The text binds the name. A variable is never a function, because JSON has no functions.
        return lambda scope: found(scope, name)
    return compile_scope.code(node)


def _call_defined(
    called: Function, values: list[FeelValue], names: tuple[str, ...] | None, budget: Budget
) -> FeelValue:
    """Call a function that the text defines; null if the names of the arguments differ from the parameters."""
    if names is not None:
        if sorted(names) != sorted(called.parameters):
            return None
        by_name = dict(zip(names, values, strict=True))
        values = [by_name[name] for name in called.parameters]
    return called.call(budget, values)


def _for(domains: list[Domain], body: Code, cost: int) -> Code:
    def code(scope: Scope) -> FeelValue:
        budget = scope.budget
        results: list[FeelValue] = []
        for inner in _combinations(domains, scope.within({"partial": results})):
            if inner is None:
                return None
            budget.spend(cost)
            results.append(body(inner))
        return results

    return code


def _quantifier(domains: list[Domain], body: Code, cost: int, *, decisive: bool) -> Code:
    def code(scope: Scope) -> FeelValue:
        answer: bool | None = not decisive
        for inner in _combinations(domains, scope):
            if inner is None:
                return None
            scope.budget.spend(cost)
            value = body(inner)
            if value is decisive:
                return value
            if value is not (not decisive):
                answer = None
        return answer

    return code


def _combinations(domains: list[Domain], scope: Scope) -> Iterator[Scope | None]:
    """Yield a scope for each combination of the variables' values; yield only None if a domain is not a list."""
    (name, domain, is_bare), *rest = domains
    items = _items(domain(scope), scope.budget, is_bare=is_bare)
    if items is None:
        yield None
        return
    for item in items:
        inner = scope.within({name: item})
        if rest:
            scope.budget.spend(1)
            yield from _combinations(rest, inner)
        else:
            yield inner


def _items(value: FeelValue, budget: Budget, *, is_bare: bool) -> list[FeelValue] | None:
    match value:
        case None:
            return None
        case Range():
            return steps_of(value.start, value.end, budget) if is_bare else items_of(value, budget)
    return as_list(value)


def _fitted(arguments: list[FeelValue], types: list[FeelType], budget: Budget) -> list[FeelValue] | None:
    """Convert arguments to the parameters' types; null stays null.

    Return None if another argument can't be converted.
    """
    values = [
        argument if wanted is ANY else fitted(argument, wanted, budget)
        for argument, wanted in zip(arguments, types, strict=True)
    ]
    is_lost = any(value is None and argument is not None for value, argument in zip(values, arguments, strict=True))
    return None if is_lost else values


def _call_builtin(candidates: list[Builtin], arguments: list[Code], names: tuple[str, ...] | None) -> Code:
    if not candidates:
        return lambda scope: None  # noqa: ARG005 no declaration fits the number or the names of the arguments
    if names is not None:
        order = [names.index(parameter.name) for parameter in candidates[0].parameters]
        arguments = [arguments[index] for index in order]
        candidates = candidates[:1]
    if len(candidates) > 1:
        return lambda scope: call_first(candidates, scope.budget, [argument(scope) for argument in arguments])
    only = candidates[0]

    def code(scope: Scope) -> FeelValue:
        values = only.fit([argument(scope) for argument in arguments])
        return None if values is None else only.call(scope.budget, values)

    return code


def _unknown(text: str, function: Name) -> NotFeel:
    if sentence := UNSUPPORTED.get(function.name):
        return NotFeel(text, function.position, sentence)
    close = get_close_matches(function.name, FUNCTION_NAMES, n=1, cutoff=0.8)
    way_out = f"did you mean {close[0]}?" if close else "the page on FEEL lists all functions"
    return NotFeel(text, function.position, f"there is no function {shortened(function.name)}; {way_out}")


def _mismatch(text: str, function: Name, call: Invocation) -> NotFeel:
    count = len(call.arguments)
    given = f"{count} argument{'' if count == 1 else 's'}"
    if call.names is not None:
        given = f"the arguments {shortened(', '.join(call.names))}"
    return NotFeel(text, function.position, f"{function.name} does not take {given}; write {forms_of(function.name)}")
