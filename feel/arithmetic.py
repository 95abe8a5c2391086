"""Add, subtract, multiply, divide and raise numbers, texts, dates and durations; operands of other types give null.

Numbers are decimals of 34 digits, as in DMN 1.5 and IEEE 754's decimal128. Python's ints represent whole numbers,
because ints are faster with the same results.
"""

from collections.abc import Callable
from decimal import ROUND_HALF_EVEN, Context, Decimal
from itertools import product
from typing import Any

from shardclock_server.feel.budget import Budget
from shardclock_server.feel.calendar import months_on
from shardclock_server.feel.refusal import TooLong
from shardclock_server.feel.temporal import DAY_NS, Date, DateTime, Elapsed, Months, Time, at_local, midnight
from shardclock_server.feel.temporal_text import checked
from shardclock_server.feel.values import FeelValue

DIGITS = 34
EXPONENT_MAX = 6_144
INT_END = 10**DIGITS
POWER_STEPS = 50
# limited, because Python takes a millisecond to convert a number of 6,000 digits to text
POSITION_MAX = 10**15
CONTEXT = Context(prec=DIGITS, rounding=ROUND_HALF_EVEN, Emin=-6_143, Emax=EXPONENT_MAX, clamp=1, traps=[])

Number = int | Decimal
Rule = Callable[[Any, Any], FeelValue]


def add(left: FeelValue, right: FeelValue, budget: Budget) -> FeelValue:
    """Add two numbers, join two texts, or add a duration to a date, a time or a duration."""
    if isinstance(left, str) and isinstance(right, str):
        budget.spend_on_text(len(left) + len(right))
        return left + right
    rule = SUMS.get((type(left), type(right)))
    return rule(left, right) if rule else None


def subtract(left: FeelValue, right: FeelValue, budget: Budget) -> FeelValue:  # noqa: ARG001 the common signature
    """Subtract a number from a number, a duration from a date, time or duration, or a moment from a moment."""
    rule = DIFFERENCES.get((type(left), type(right)))
    return rule(left, right) if rule else None


def multiply(left: FeelValue, right: FeelValue, budget: Budget) -> FeelValue:  # noqa: ARG001 the common signature
    """Multiply two numbers, or a duration by a number."""
    rule = PRODUCTS.get((type(left), type(right)))
    return rule(left, right) if rule else None


def divide(left: FeelValue, right: FeelValue, budget: Budget) -> FeelValue:  # noqa: ARG001 the common signature
    """Divide two numbers, a duration by a number, or two durations of one kind; a division by zero is null."""
    rule = QUOTIENTS.get((type(left), type(right)))
    return rule(left, right) if rule else None


def power(left: FeelValue, right: FeelValue, budget: Budget) -> FeelValue:
    """Raise a number to the power of another number; null if the result is not a real number."""
    budget.spend(POWER_STEPS)
    rule = POWERS.get((type(left), type(right)))
    return rule(left, right) if rule else None


def negate(value: FeelValue) -> FeelValue:
    """Negate a number or a duration."""
    match value:
        case bool():
            return None
        case int() | Decimal():
            return value and (-value if isinstance(value, int) else CONTEXT.minus(value))
        case Months(months):
            return Months(-months)
        case Elapsed(ns):
            return Elapsed(-ns)
    return None


def whole(number: int) -> Number:
    """Round a whole number to 34 digits; most numbers have fewer digits and stay unchanged."""
    return number if -INT_END < number < INT_END else finite(CONTEXT.create_decimal(number)) or 0


def clamped(number: Number) -> int:
    """Drop a number's decimals, and limit the result to ±POSITION_MAX; no list has so many items."""
    return int(max(min(number, POSITION_MAX), -POSITION_MAX))


def position(number: Number) -> int | None:
    """Convert a number without decimals to an int, limited to ±POSITION_MAX; return None for a number with decimals."""
    return clamped(number) if isinstance(number, int) or number == CONTEXT.to_integral_value(number) else None


def finite(number: Decimal) -> Decimal | None:
    """Return a finite number unchanged, and None for NaN.

    errors:  TooLong  the number is infinite: the result is larger than any decimal128 number
    """
    if number.is_finite():
        return number
    if number.is_infinite():
        raise TooLong(f"the expression computes a number above the limit of 10^{EXPONENT_MAX}")
    return None


def _moved(start: Date | DateTime | Time, length: Months | Elapsed, sign: int) -> FeelValue:
    match start, length:
        case Time(), Elapsed():
            return start.plus(sign * length.ns)
        case Date(), Elapsed():
            return checked(Date.numbered((start.number * DAY_NS + sign * length.ns) // DAY_NS))
        case Date(), Months():
            return checked(Date(*months_on(start.year, start.month, start.day, sign * length.months)))
        case DateTime(), Months():
            date = start.date
            moved = Date(*months_on(date.year, date.month, date.day, sign * length.months))
            local_ns = moved.number * DAY_NS + start.ns
            return checked(at_local(local_ns, start.zone, preferred_s=start.offset_s))
        case DateTime(), Elapsed():
            return checked(start.plus(sign * length.ns))
    return None


def _between(left: Time | DateTime, right: Time | DateTime) -> Elapsed | None:
    """Return the duration from `right` to `left`; None if only one of the two moments has a zone or an offset."""
    if (left.zone is None) != (right.zone is None):
        return None
    if isinstance(left, DateTime) and isinstance(right, DateTime):
        return checked(Elapsed(left.utc_ns - right.utc_ns))
    offsets_s = (left.offset_s or 0) - (right.offset_s or 0)
    return checked(Elapsed(left.ns - right.ns - offsets_s * 1_000_000_000))


def _scaled(length: Months | Elapsed, scale: Callable[[Decimal, Number], Decimal], factor: Number) -> FeelValue:
    """Multiply or divide a duration; fractions of a month or of a nanosecond are dropped."""
    amount = length.months if isinstance(length, Months) else length.ns
    scaled = finite(scale(Decimal(amount), factor))
    if scaled is None or scaled.adjusted() > DIGITS:
        return None
    amount = int(scaled)
    return checked(Months(amount)) if isinstance(length, Months) else checked(Elapsed(amount))


def _quotient(left: Number, right: Number) -> Number | None:
    return finite(CONTEXT.divide(left, right)) if right else None


def _power(left: Number, right: Number) -> Number | None:
    return finite(CONTEXT.power(left, right)) if right else 1


def _rules(*declared: tuple[tuple[type, ...], tuple[type, ...], Rule]) -> dict[tuple[type, type], Rule]:
    """Map each pair of types to its rule; if a pair has several rules, the first rule is used."""
    rules: dict[tuple[type, type], Rule] = {}
    for lefts, rights, rule in declared:
        for pair in product(lefts, rights):
            rules.setdefault(pair, rule)
    return rules


INT, NUMBERS, LENGTHS, POINTS = (int,), (int, Decimal), (Months, Elapsed), (Date, DateTime, Time)
SUMS = _rules(
    (INT, INT, lambda left, right: whole(left + right)),
    (NUMBERS, NUMBERS, lambda left, right: finite(CONTEXT.add(left, right))),
    ((Months,), (Months,), lambda left, right: checked(Months(left.months + right.months))),
    ((Elapsed,), (Elapsed,), lambda left, right: checked(Elapsed(left.ns + right.ns))),
    (POINTS, LENGTHS, lambda left, right: _moved(left, right, 1)),
    (LENGTHS, POINTS, lambda left, right: _moved(right, left, 1)),
)
DIFFERENCES = _rules(
    (INT, INT, lambda left, right: whole(left - right)),
    (NUMBERS, NUMBERS, lambda left, right: finite(CONTEXT.subtract(left, right))),
    ((Months,), (Months,), lambda left, right: checked(Months(left.months - right.months))),
    ((Elapsed,), (Elapsed,), lambda left, right: checked(Elapsed(left.ns - right.ns))),
    (POINTS, LENGTHS, lambda left, right: _moved(left, right, -1)),
    ((Time,), (Time,), _between),
    ((DateTime,), (DateTime,), _between),
    ((DateTime,), (Date,), lambda left, right: _between(left, midnight(right))),
    ((Date,), (DateTime,), lambda left, right: _between(midnight(left), right)),
    ((Date,), (Date,), lambda left, right: _between(midnight(left), midnight(right))),
)
PRODUCTS = _rules(
    (INT, INT, lambda left, right: whole(left * right)),
    (NUMBERS, NUMBERS, lambda left, right: finite(CONTEXT.multiply(left, right))),
    (LENGTHS, NUMBERS, lambda left, right: _scaled(left, CONTEXT.multiply, right)),
    (NUMBERS, LENGTHS, lambda left, right: _scaled(right, CONTEXT.multiply, left)),
)
QUOTIENTS = _rules(
    (NUMBERS, NUMBERS, _quotient),
    (LENGTHS, NUMBERS, lambda left, right: _scaled(left, CONTEXT.divide, right) if right else None),
    ((Months,), (Months,), lambda left, right: _quotient(left.months, right.months)),
    ((Elapsed,), (Elapsed,), lambda left, right: _quotient(left.ns, right.ns)),
)
POWERS = _rules((NUMBERS, NUMBERS, _power))
