"""Evaluate FEEL in tests, always at the same moment."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType

from shardclock_server.feel import Budget, Expression, FeelValue, compile_expression, from_json, to_json
from shardclock_server.feel.budget import CHECK_STEPS

NOW = datetime(2031, 1, 31, 8, tzinfo=UTC)
NONE: Mapping[str, FeelValue] = MappingProxyType({})


def value_of(text: str, **variables: object) -> FeelValue:
    expression = compile_expression(text)
    return expression.evaluate({name: from_json(value) for name, value in variables.items()}, now=NOW)


def json_of(text: str, **variables: object) -> object:
    return to_json(value_of(text, **variables))


def evaluate_within_the_time(expression: Expression, variables: Mapping[str, FeelValue] = NONE) -> None:
    """Evaluate an expression; the budget refuses an evaluation that takes too much processor time.

    errors:  TooLong  the expression takes too many steps or too much time
    """
    budget = Budget(NOW)
    to_json(expression.evaluate_within(variables, budget))
    budget.spend(CHECK_STEPS + 1)  # so many steps end with a check of the time
