"""Find the variables that an expression can read, and the scope into which a value is written.

A variable belongs to a scope: the process, a sub-process, or one execution of an activity. If several scopes have a
variable with the same name, an expression reads the variable of the nearest scope. A result is written to the nearest
scope that has the variable, or else to the process. If a task has an input mapping for the name of its result, the task
itself is the nearest scope with this variable. So the result stays inside the task. An output mapping writes to the
scope around the task.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from shardclock.jsonb import DEPTH_MAX, TOO_DEEP
from shardclock_server.bpmn.model.definition import Assignment
from shardclock_server.bpmn.model.expressions import Text
from shardclock_server.bpmn.step.evaluation_budget import EvaluationBudget
from shardclock_server.bpmn.step.state import ROOT, Instance, Token
from shardclock_server.feel import AssertionFailed, Expression, Json, TooLong, Unstorable
from shardclock_server.timers.refusal import shortened

LOOKUPS_MAX = 3  # The limit of variables in one message.


class EvaluationFailed(ValueError):
    """The value of an expression is not usable at the node. The error becomes an incident with the same message."""


def evaluate_value(text: Text, instance: Instance, token: Token, budget: EvaluationBudget, *, levels: int = 0) -> Json:
    """Evaluate a text or an expression of a model, and return JSON.

    shape:   `levels` is the number of lists and contexts in the target variable that will contain the value
    errors:  EvaluationFailed  the expressions exceed a limit, an `assert` fails, or Postgres can't store the value
    """
    if not isinstance(text, str):
        return _evaluated(text, instance, token, budget, levels=levels)
    if levels >= DEPTH_MAX:
        raise EvaluationFailed(f"a value {TOO_DEEP}")
    return text


def is_true(condition: Expression, instance: Instance, token: Token, budget: EvaluationBudget, *, subject: str) -> bool:
    """Evaluate a condition; `subject` names the condition in the message.

    errors:  EvaluationFailed  the value is neither true nor false, for example null; also the errors of
             `evaluate_value`
    """
    value = _evaluated(condition, instance, token, budget)
    if isinstance(value, bool):
        return value
    raise EvaluationFailed(
        f"{subject}, {shortened(condition.shown)}, is {shortened(value)}, and neither true nor false"
        f"{describe_lookups(instance, token, condition)}; correct the variables, and resolve the incident"
    )


def evaluate_text(text: Text, instance: Instance, token: Token, budget: EvaluationBudget, *, subject: str) -> str:
    """Evaluate an expression and require a text as its value; `subject` names the expression in the message.

    errors:  EvaluationFailed  the value is not a text, or is empty
    """
    value = evaluate_value(text, instance, token, budget)
    if isinstance(value, str) and value:
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    wrong = "an empty text" if value == "" else f"{shortened(value)}, not a text"
    raise EvaluationFailed(
        f"{subject} is {wrong}{describe_lookups(instance, token, text)}; correct the variable or the model"
    )


def describe_lookups(instance: Instance, token: Token, *texts: Text | None) -> str:
    """Describe the variables that expressions read, each with scope and type, for the message of an incident.

    shape:   a space and a text in parentheses, with missing variables first, then null variables; '' without any
             variable
    """
    names = sorted({name for text in texts if text is not None and not isinstance(text, str) for name in text.names})
    scopes = list(scopes_of(instance, token))
    found = [(name, next((scope for scope in scopes if name in scope.variables), None)) for name in names]
    found.sort(key=lambda pair: (pair[1] is not None, pair[1] is not None and pair[1].variables[pair[0]] is not None))
    if not found:
        return ""
    descriptions = [_describe_lookup(name, scope, scopes) for name, scope in found[:LOOKUPS_MAX]]
    if len(found) > LOOKUPS_MAX:
        descriptions.append(f"and {len(found) - LOOKUPS_MAX:,} more")
    return f" ({', '.join(descriptions)})"


def _describe_lookup(name: str, scope: Token | None, scopes: Sequence[Token]) -> str:
    if scope is not None:
        return f"the variable {shortened(name)} of {_title(scope)} is {_kind(scope.variables[name])}"
    *inner, outer = dict.fromkeys(map(_title, scopes))
    within = f"{', '.join(inner)} or {outer}" if inner else outer
    return f"no variable {shortened(name)} in {within}"


def _title(scope: Token) -> str:
    """Name a scope by the id of its node."""
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
    expression: Expression, instance: Instance, token: Token, budget: EvaluationBudget, *, levels: int = 0
) -> Json:
    try:
        return budget.evaluate(
            expression,
            (
                (name, scope.variables[name])
                for name in expression.names
                if (scope := _scope_with(name, instance, token)) is not None
            ),
            levels=levels,
        )
    except AssertionFailed as error:
        raise EvaluationFailed(f"{error}{describe_lookups(instance, token, expression)}") from None
    except (TooLong, Unstorable) as error:
        raise EvaluationFailed(str(error)) from None


def _scope_with(name: str, instance: Instance, token: Token) -> Token | None:
    """Return the nearest scope with a variable of the given name."""
    at: Token | None = token
    while at is not None and name not in at.variables:
        at = instance.tokens.get(at.scope)
    return at


def scopes_of(instance: Instance, token: Token) -> Iterator[Token]:
    """Yield a token and its containing tokens, the nearest first."""
    at: Token | None = token
    while at is not None:
        yield at
        at = instance.tokens.get(at.scope)


def visible_variables(instance: Instance, token: Token) -> dict[str, Json]:
    """Return all variables that expressions of a token can read."""
    seen: dict[str, Json] = {}
    for scope in reversed(list(scopes_of(instance, token))):
        seen |= scope.variables
    return seen


def propagate(variables: Mapping[str, Json], instance: Instance, begin: Token) -> None:
    """Write each variable into the nearest scope that has the variable, from `begin` on, or else into the process."""
    for name, value in variables.items():
        (_scope_with(name, instance, begin) or instance.tokens[ROOT]).variables[name] = value


def evaluate_inputs(
    inputs: Iterable[Assignment], instance: Instance, token: Token, budget: EvaluationBudget
) -> dict[str, Json]:
    """Evaluate input mappings; each mapping can read the results of the earlier mappings.

    shape:   returns the token's new variables; the token is not changed, so that a retry does not find partial results
    errors:  EvaluationFailed  an expression fails or exceeds a limit
    """
    given = replace(token, variables=dict(token.variables))
    for assignment in inputs:
        value = evaluate_value(assignment.source, instance, given, budget, levels=len(assignment.target) - 1)
        _write_path(given.variables, assignment.target, value, budget)
    return given.variables


def evaluate_outputs(
    outputs: Sequence[Assignment], instance: Instance, token: Token, budget: EvaluationBudget
) -> dict[str, Json]:
    """Evaluate output mappings.

    Each mapping can read the results of the earlier mappings. A mapping to a path keeps the variable's other content.

    errors:  EvaluationFailed  an expression fails or exceeds a limit
    """
    written = Token(0, token.node_id, token.key)
    has_paths = any(len(assignment.target) > 1 for assignment in outputs)
    around = visible_variables(instance, instance.tokens.get(token.scope, token)) if has_paths else {}
    for assignment in outputs:
        value = evaluate_value(assignment.source, instance, written, budget, levels=len(assignment.target) - 1)
        head, *inside = assignment.target
        if inside and head in around:
            written.variables.setdefault(head, around[head])
        _write_path(written.variables, assignment.target, value, budget)
    return written.variables


def _write_path(variables: dict[str, Json], path: tuple[str, ...], value: Json, budget: EvaluationBudget) -> None:
    """Write a value at a path; create a context for each entry of the path that is missing or is not a context."""
    *outer, name = path
    for part in outer:
        inside = variables.get(part)
        try:
            # Copy the value, because another scope may have the same object.
            variables[part] = inside = budget.copy(inside) if isinstance(inside, dict) else {}
        except TooLong as error:
            raise EvaluationFailed(str(error)) from None
        variables = inside
    variables[name] = value
