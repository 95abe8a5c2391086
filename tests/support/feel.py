"""Evaluate FEEL in tests, always at the same moment."""

from __future__ import annotations

from datetime import UTC, datetime

from shardclock_server.feel import FeelValue, compile_expression, from_json, to_json

NOW = datetime(2031, 1, 31, 8, tzinfo=UTC)


def value_of(text: str, **variables: object) -> FeelValue:
    expression = compile_expression(text)
    return expression.evaluate({name: from_json(value) for name, value in variables.items()}, now=NOW)


def json_of(text: str, **variables: object) -> object:
    return to_json(value_of(text, **variables))
