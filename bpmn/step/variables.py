"""Say which values an expression sees, and where a value is written.

A variable belongs to a scope: the process, a sub-process, or one execution of an activity. An expression sees the
nearest one of its name. A result goes to the nearest scope that has the variable, or else to the process: what has the
name of an input mapping stays within its task. What an output mapping writes is for the scope around the task.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from shardclock.jsonb import DEPTH_MAX, TOO_DEEP
from shardclock_server.bpmn.model.definition import Assignment
from shardclock_server.bpmn.model.expressions import Text
from shardclock_server.bpmn.step.spending import Spending
from shardclock_server.bpmn.step.state import ROOT, Instance, Token
from shardclock_server.feel import Expression, Json, TooLong, Unmet, Unstorable
from shardclock_server.timers.refusal import shortened

LOOKUPS_MAX = 3  # variables that one sentence names


class Unanswerable(ValueError):
    """Say why an expression has no value that the node can use: an incident's sentence."""


def value_of(text: Text, instance: Instance, token: Token, spending: Spending, *, levels: int = 0) -> Json:
    """Evaluate what a model wrote as text or as an expression, as JSON.

    shape:   `levels` are the lists and contexts of its variable into which the value is put
    errors:  Unanswerable  the expression passed a bound, all of the element did, an assertion in it does not hold, or
                           its value can't be stored
    """
    if not isinstance(text, str):
        return _evaluated(text, instance, token, spending, levels=levels)
    if levels >= DEPTH_MAX:
        raise Unanswerable(f"a value {TOO_DEEP}")
    return text


def is_true(condition: Expression, instance: Instance, token: Token, spending: Spending, *, meant: str) -> bool:
    """Say whether a condition is true; `meant` names it in the sentence.

    errors:  Unanswerable  it is neither true nor false, which null is not; or as of `value_of`
    """
    value = _evaluated(condition, instance, token, spending)
    if isinstance(value, bool):
        return value
    raise Unanswerable(
        f"{meant}, {shortened(condition.shown)}, is {shortened(value)}, and neither true nor false"
        f"{lookups(instance, token, condition)}; correct the variables, and resolve this"
    )


def text_for(text: Text, instance: Instance, token: Token, spending: Spending, *, meant: str) -> str:
    """Evaluate what must be a text; `meant` names it in the sentence.

    errors:  Unanswerable  it is something else, or empty
    """
    value = value_of(text, instance, token, spending)
    if isinstance(value, str) and value:
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    wrong = "an empty text" if value == "" else f"{shortened(value)}, not a text"
    raise Unanswerable(f"{meant} is {wrong}{lookups(instance, token, text)}; correct the variable or the model")


def lookups(instance: Instance, token: Token, *texts: Text | None) -> str:
    """Tell the scope and the kind of each variable that expressions read, for an incident's sentence.

    shape:   in parentheses after a space, missing variables first, then null ones; empty if no variable is read
    """
    names = sorted({name for text in texts if text is not None and not isinstance(text, str) for name in text.names})
    scopes = list(scopes_of(instance, token))
    found = [(name, next((scope for scope in scopes if name in scope.variables), None)) for name in names]
    found.sort(key=lambda pair: (pair[1] is not None, pair[1] is not None and pair[1].variables[pair[0]] is not None))
    if not found:
        return ""
    said = [_lookup(name, scope, scopes) for name, scope in found[:LOOKUPS_MAX]]
    if len(found) > LOOKUPS_MAX:
        said.append(f"and {len(found) - LOOKUPS_MAX:,} more")
    return f" ({', '.join(said)})"


def _lookup(name: str, scope: Token | None, scopes: Sequence[Token]) -> str:
    if scope is not None:
        return f"the variable {shortened(name)} of {_title(scope)} is {_kind(scope.variables[name])}"
    *inner, outer = dict.fromkeys(map(_title, scopes))
    within = f"{', '.join(inner)} or {outer}" if inner else outer
    return f"no variable {shortened(name)} in {within}"


def _title(scope: Token) -> str:
    """Name a scope by its node."""
    if scope.scope == 0:
        return f"the process {scope.node_id}"
    return f"execution {scope.number} of {scope.node_id}" if scope.number else scope.node_id


def _kind(value: Json) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case str():
            return "a text"
        case list():
            return "a list"
        case dict():
            return "a context"
        case _:
            return "a number"


def _evaluated(
    expression: Expression, instance: Instance, token: Token, spending: Spending, *, levels: int = 0
) -> Json:
    try:
        return spending.evaluate(
            expression,
            (
                (name, scope.variables[name])
                for name in expression.names
                if (scope := _scope_with(name, instance, token)) is not None
            ),
            levels=levels,
        )
    except Unmet as error:
        raise Unanswerable(f"{error}{lookups(instance, token, expression)}") from None
    except (TooLong, Unstorable) as error:
        raise Unanswerable(str(error)) from None


def _scope_with(name: str, instance: Instance, token: Token) -> Token | None:
    """Find the nearest scope that has a variable."""
    at: Token | None = token
    while at is not None and name not in at.variables:
        at = instance.tokens.get(at.scope)
    return at


def scopes_of(instance: Instance, token: Token) -> Iterator[Token]:
    """Give the token and all that contain it, the nearest first."""
    at: Token | None = token
    while at is not None:
        yield at
        at = instance.tokens.get(at.scope)


def visible(instance: Instance, token: Token) -> dict[str, Json]:
    """Gather all variables that a token sees."""
    seen: dict[str, Json] = {}
    for scope in reversed(list(scopes_of(instance, token))):
        seen |= scope.variables
    return seen


def spread(variables: Mapping[str, Json], instance: Instance, begin: Token) -> None:
    """Write each variable into the nearest scope that has it, beginning at one. If none has it, the process gets it."""
    for name, value in variables.items():
        (_scope_with(name, instance, begin) or instance.tokens[ROOT]).variables[name] = value


def assigned(inputs: Iterable[Assignment], instance: Instance, token: Token, spending: Spending) -> dict[str, Json]:
    """Evaluate input mappings, each of which sees those before it.

    shape:   all variables that the token is to have. It has none of them yet, so that a retry sees no half of them
    errors:  Unanswerable  as of `value_of`
    """
    given = replace(token, variables=dict(token.variables))
    for assignment in inputs:
        value = value_of(assignment.source, instance, given, spending, levels=len(assignment.target) - 1)
        _place(given.variables, assignment.target, value, spending)
    return given.variables


def mapped(outputs: Sequence[Assignment], instance: Instance, token: Token, spending: Spending) -> dict[str, Json]:
    """Evaluate output mappings, each of which sees those before it. A path keeps what else its variable holds.

    errors:  Unanswerable  as of `value_of`
    """
    written = Token(0, token.node_id, token.key)
    has_paths = any(len(assignment.target) > 1 for assignment in outputs)
    around = visible(instance, instance.tokens.get(token.scope, token)) if has_paths else {}
    for assignment in outputs:
        value = value_of(assignment.source, instance, written, spending, levels=len(assignment.target) - 1)
        head, *inside = assignment.target
        if inside and head in around:
            written.variables.setdefault(head, around[head])
        _place(written.variables, assignment.target, value, spending)
    return written.variables


def _place(variables: dict[str, Json], path: tuple[str, ...], value: Json, spending: Spending) -> None:
    """Write a value at a path; what is on the way and no context becomes one."""
    *outer, name = path
    for part in outer:
        inside = variables.get(part)
        try:
            # A copy, because the value may be shared with another scope.
            variables[part] = inside = spending.copy(inside) if isinstance(inside, dict) else {}
        except TooLong as error:
            raise Unanswerable(str(error)) from None
        variables = inside
    variables[name] = value
