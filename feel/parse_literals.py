"""Parse numbers, and the literals after an @."""

from __future__ import annotations

from shardclock_server.feel.arithmetic import CONTEXT, DIGITS, EXPONENT_MAX
from shardclock_server.feel.source import Source
from shardclock_server.feel.syntax import Constant
from shardclock_server.feel.temporal_text import parse_temporal
from shardclock_server.timers.refusal import shortened


def parse_number(source: Source) -> Constant:
    """Parse a number, and round the number to 34 digits.

    errors:  NotFeel  the exponent is too large
    """
    token = source.take()
    text = token.text
    if text.isdecimal() and len(text) <= DIGITS:
        return Constant(int(text))
    number = CONTEXT.create_decimal(text)
    if not number.is_finite():
        source.refuse(f"{shortened(text)} is too large; numbers have exponents up to {EXPONENT_MAX:,}", token)
    return Constant(number)


def parse_at_literal(source: Source) -> Constant:
    """Parse the text after an @.

    errors:  NotFeel  the text is not a date, time, date-time or duration
    """
    token = source.take()
    value = parse_temporal(token.text) if token.kind == "text" else None
    if value is None:
        source.refuse(
            f'{shortened(token.text)} after @ is not a date, time or duration; write @"2026-01-31" or @"PT15M"', token
        )
    return Constant(value)
