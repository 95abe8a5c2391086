"""Add, subtract, multiply, divide and raise numbers, texts, dates and durations; what does not fit is null.

Numbers are decimals of 34 digits, as in DMN 1.5 and IEEE 754's decimal128. Whole numbers stay Python's ints while they
have at most 34 digits: the results are the same, and they come sooner.
"""

from collections.abc import Callable
from decimal import ROUND_HALF_EVEN, Context, Decimal

from engine.feel.budget import Budget
from engine.feel.calendar import months_on
from engine.feel.refusal import TooLong
from engine.feel.temporal import DAY_NS, Date, DateTime, Elapsed, Months, Time, midnight
from engine.feel.temporal_text import checked
from engine.feel.values import FeelValue

DIGITS = 34
EXPONENT_MAX = 6_144
INT_END = 10**DIGITS
POWER_STEPS = 50
CONTEXT = Context(prec=DIGITS, rounding=ROUND_HALF_EVEN, Emin=-6_143, Emax=EXPONENT_MAX, clamp=1, traps=[])

Number = int | Decimal
Operation = Callable[[FeelValue, FeelValue, Budget], FeelValue]


def add(left: FeelValue, right: FeelValue, budget: Budget) -> FeelValue:
    """Add two numbers, join two texts, or move a date, a time or a duration by a duration."""
    match left, right:
        case bool(), _:
            return None
        case _, bool():
            return None
        case int(), int():
            return whole(left + right)
        case (int() | Decimal()), (int() | Decimal()):
            return finite(CONTEXT.add(left, right))
        case str(), str():
            budget.spend_on_text(len(left) + len(right))
            return left + right
        case Months(), Months():
            return checked(Months(left.months + right.months))
        case Elapsed(), Elapsed():
            return checked(Elapsed(left.ns + right.ns))
        case (Months() | Elapsed()), (Date() | DateTime() | Time()):
            return _moved(right, left, 1)
        case (Date() | DateTime() | Time()), (Months() | Elapsed()):
            return _moved(left, right, 1)
    return None


def subtract(left: FeelValue, right: FeelValue, budget: Budget) -> FeelValue:  # noqa: ARG001 as all operations
    """Subtract two numbers or durations, move a date or time back, or find the time between two of them."""
    match left, right:
        case bool(), _:
            return None
        case _, bool():
            return None
        case int(), int():
            return whole(left - right)
        case (int() | Decimal()), (int() | Decimal()):
            return finite(CONTEXT.subtract(left, right))
        case Months(), Months():
            return checked(Months(left.months - right.months))
        case Elapsed(), Elapsed():
            return checked(Elapsed(left.ns - right.ns))
        case (Date() | DateTime() | Time()), (Months() | Elapsed()):
            return _moved(left, right, -1)
        case Time(), Time():
            return _between(left, right)
        case (Date() | DateTime()), (Date() | DateTime()):
            return _between(*(midnight(end) if isinstance(end, Date) else end for end in (left, right)))
    return None


def multiply(left: FeelValue, right: FeelValue, budget: Budget) -> FeelValue:
    """Multiply two numbers, or a duration by a number."""
    match left, right:
        case bool(), _:
            return None
        case _, bool():
            return None
        case int(), int():
            return whole(left * right)
        case (int() | Decimal()), (int() | Decimal()):
            return finite(CONTEXT.multiply(left, right))
        case (Months() | Elapsed()), (int() | Decimal()):
            return _scaled(left, CONTEXT.multiply, right)
        case (int() | Decimal()), (Months() | Elapsed()):
            return multiply(right, left, budget)
    return None


def divide(left: FeelValue, right: FeelValue, budget: Budget) -> FeelValue:  # noqa: ARG001 as all operations
    """Divide two numbers, a duration by a number, or two durations of one kind; a division by zero is null."""
    match left, right:
        case bool(), _:
            return None
        case _, bool():
            return None
        case (int() | Decimal()), (int() | Decimal()):
            return finite(CONTEXT.divide(left, right)) if right else None
        case (Months() | Elapsed()), (int() | Decimal()):
            return _scaled(left, CONTEXT.divide, right) if right else None
        case Months(), Months():
            return finite(CONTEXT.divide(left.months, right.months)) if right.months else None
        case Elapsed(), Elapsed():
            return finite(CONTEXT.divide(CONTEXT.create_decimal(left.ns), right.ns)) if right.ns else None
    return None


def power(left: FeelValue, right: FeelValue, budget: Budget) -> FeelValue:
    """Raise a number to the power of another; null where that is no real number."""
    match left, right:
        case bool(), _:
            return None
        case _, bool():
            return None
        case (int() | Decimal()), (int() | Decimal()):
            budget.spend(POWER_STEPS)
            return finite(CONTEXT.power(left, right))
    return None


def negate(value: FeelValue) -> FeelValue:
    """Turn the sign of a number or a duration."""
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
    """Round a whole number to 34 digits; most have fewer."""
    return number if -INT_END < number < INT_END else finite(CONTEXT.create_decimal(number)) or 0


def finite(number: Decimal) -> Decimal | None:
    """Return a number, and None for what is none.

    errors:  TooLong  it is above the largest that 34 digits and an exponent of 6,144 can hold
    """
    if number.is_finite():
        return number
    if number.is_infinite():
        raise TooLong(f"the expression computes a number of over 10^{EXPONENT_MAX}; no number is that large")
    return None


def _moved(start: Date | DateTime | Time, length: Months | Elapsed, sign: int) -> FeelValue:
    match start, length:
        case Time(), Elapsed():
            return Time((start.ns + sign * length.ns) % DAY_NS, start.zone)
        case Date(), Elapsed():
            return checked(Date.numbered((start.number * DAY_NS + sign * length.ns) // DAY_NS))
        case Date(), Months():
            return checked(Date(*months_on(start.year, start.month, start.day, sign * length.months)))
        case DateTime(), Months():
            date = start.date
            moved = Date(*months_on(date.year, date.month, date.day, sign * length.months))
            return checked(DateTime(moved, start.ns, start.zone))
        case DateTime(), Elapsed():
            return checked(start.plus(sign * length.ns))
    return None


def _between(left: Time | DateTime, right: Time | DateTime) -> Elapsed | None:
    """Find the time from one to the other; None if only one of them has a zone or an offset."""
    if (left.zone is None) != (right.zone is None):
        return None
    if isinstance(left, DateTime) and isinstance(right, DateTime):
        return checked(Elapsed(left.utc_ns - right.utc_ns))
    offsets_s = (left.offset_s or 0) - (right.offset_s or 0)
    return checked(Elapsed(left.ns - right.ns - offsets_s * 1_000_000_000))


def _scaled(
    length: Months | Elapsed, scale: Callable[[Decimal, Number], Decimal], factor: Number
) -> FeelValue:
    """Multiply or divide a duration; parts of a month or of a nanosecond are dropped."""
    amount = length.months if isinstance(length, Months) else length.ns
    scaled = finite(scale(Decimal(amount), factor))
    if scaled is None or scaled.adjusted() > DIGITS:
        return None
    return checked(Months(int(scaled)) if isinstance(length, Months) else Elapsed(int(scaled)))
