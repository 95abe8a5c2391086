"""Write values in FEEL's notation."""

from __future__ import annotations

from decimal import Decimal

from shardclock_server.feel.budget import Budget, check_depth
from shardclock_server.feel.temporal import Date, DateTime, Elapsed, Months, Time
from shardclock_server.feel.temporal_text import temporal_text
from shardclock_server.feel.values import OPEN, FeelValue, Inequality, Range

NOT_PLAIN = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def text_of(value: FeelValue, budget: Budget) -> str:
    """Write a value as a text; a text is returned unchanged.

    errors:  TooLong  the text becomes too long
    """
    return value if isinstance(value, str) else _written(value, budget, 0)


def number_text(number: int | Decimal) -> str:
    """Write a number without an exponent, and without zeros at its end."""
    if isinstance(number, int):
        return str(number)
    text = f"{number:f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def _written(value: FeelValue, budget: Budget, depth: int) -> str:
    check_depth(depth)
    budget.spend(1)
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | Decimal():
            text = number_text(value)
        case str():
            text = f'"{value.translate(NOT_PLAIN)}"'
        case Date() | Time() | DateTime() | Months() | Elapsed():
            text = temporal_text(value) if depth == 0 else f'@"{temporal_text(value)}"'
        case list():
            text = f"[{', '.join([_written(item, budget, depth + 1) for item in value])}]"
        case dict():
            entries = [f"{_key(key)}: {_written(item, budget, depth + 1)}" for key, item in value.items()]
            text = f"{{{', '.join(entries)}}}"
        case Range():
            text = _range_text(value, budget, depth)
        case Inequality():
            text = f"(!= {_written(value.value, budget, depth + 1)})"
        case _:
            return "function"
    budget.spend_on_text(len(text))
    return text


def _key(key: str) -> str:
    return key if key.isidentifier() else f'"{key.translate(NOT_PLAIN)}"'


def _range_text(span: Range, budget: Budget, depth: int) -> str:
    start, end = (None if end is OPEN else _written(end, budget, depth + 1) for end in (span.start, span.end))
    if span.is_test:
        return f"(= {start})"
    if start is None:
        return f"(<{'=' if span.has_end else ''} {end})"
    if end is None:
        return f"(>{'=' if span.has_start else ''} {start})"
    return f"{'[' if span.has_start else '('}{start}..{end}{']' if span.has_end else ')'}"
