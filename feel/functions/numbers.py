"""Round numbers, and compute roots, logarithms and remainders."""

from __future__ import annotations

from decimal import (
    ROUND_CEILING,
    ROUND_DOWN,
    ROUND_FLOOR,
    ROUND_HALF_DOWN,
    ROUND_HALF_EVEN,
    ROUND_HALF_UP,
    ROUND_UP,
    Decimal,
)

from shardclock_server.feel.arithmetic import CONTEXT, POWER_STEPS, Number, finite, negate
from shardclock_server.feel.budget import Budget
from shardclock_server.feel.functions.registry import builtin, counted
from shardclock_server.feel.temporal import Elapsed, Months
from shardclock_server.feel.values import FeelValue

SCALE_MIN, SCALE_MAX = -6_111, 6_176  # the limits of decimal128
ROUNDINGS = {
    "round up": ROUND_UP,
    "round down": ROUND_DOWN,
    "round half up": ROUND_HALF_UP,
    "round half down": ROUND_HALF_DOWN,
}
MODE_CHARS_MAX = 20
MODES = {
    "UP": ROUND_UP,
    "DOWN": ROUND_DOWN,
    "CEILING": ROUND_CEILING,
    "FLOOR": ROUND_FLOOR,
    "HALF_UP": ROUND_HALF_UP,
    "HALF_DOWN": ROUND_HALF_DOWN,
    "HALF_EVEN": ROUND_HALF_EVEN,
}


def rounded(number: Number, scale: Number, rounding: str) -> Number | None:
    """Round a number to `scale` decimals, or to tens and hundreds for a negative scale; null beyond decimal128."""
    if not SCALE_MIN <= scale <= SCALE_MAX:
        return None
    places = int(scale)
    exact = Decimal(number)
    exponent = exact.as_tuple().exponent
    if isinstance(exponent, int) and exponent >= -places:
        return number
    result = exact.quantize(Decimal(1).scaleb(-places, CONTEXT), rounding=rounding, context=CONTEXT)
    return finite(result)


def _declare_rounding(name: str, rounding: str) -> None:
    @builtin(name, "n: number")
    @builtin(name, "n: number, scale: number")
    def _(n: Number, scale: Number = 0) -> Number | None:
        return rounded(n, scale, rounding)


for _name, _rounding in ROUNDINGS.items():
    _declare_rounding(_name, _rounding)


@builtin("decimal", "n: number, scale: number")
@builtin("decimal", "n: number, scale: number, mode: string")
def decimal(n: Number, scale: Number, mode: str = "HALF_EVEN") -> Number | None:
    """Round in a given mode; null for an unknown mode, and if the mode UNNECESSARY would lose a digit."""
    name = mode.upper() if len(mode) <= MODE_CHARS_MAX else ""
    if name == "UNNECESSARY":
        exact = rounded(n, scale, ROUND_DOWN)
        return exact if exact == n else None
    return rounded(n, scale, MODES[name]) if name in MODES else None


@builtin("floor", "n: number")
@builtin("floor", "n: number, scale: number")
def floor(n: Number, scale: Number = 0) -> Number | None:
    """Round down, towards minus infinity."""
    return rounded(n, scale, ROUND_FLOOR)


@builtin("ceiling", "n: number")
@builtin("ceiling", "n: number, scale: number")
def ceiling(n: Number, scale: Number = 0) -> Number | None:
    """Round up, towards infinity."""
    return rounded(n, scale, ROUND_CEILING)


@builtin("abs", "n: number | years and months duration | days and time duration")
def absolute(n: FeelValue) -> FeelValue:
    """Drop the sign of a number or a duration."""
    match n:
        case Months(amount) | Elapsed(amount):
            return negate(n) if amount < 0 else n
        case int() | Decimal():
            return negate(n) if n < 0 else n
    return None


@builtin("modulo", "dividend: number, divisor: number")
def modulo(dividend: Number, divisor: Number) -> Number | None:
    """Return the remainder of a division that rounds down; the remainder has the divisor's sign."""
    if not divisor:
        return None
    if isinstance(dividend, int) and isinstance(divisor, int):
        return dividend % divisor
    rest = finite(CONTEXT.remainder(dividend, divisor))
    if rest and (rest < 0) != (divisor < 0):
        return finite(CONTEXT.add(rest, divisor))
    return rest


@builtin("sqrt", "number: number")
def sqrt(number: Number) -> Number | None:
    """Return the square root; null for a negative number."""
    return finite(CONTEXT.sqrt(number)) if number >= 0 else None


@counted("log", "number: number")
def log(budget: Budget, number: Number) -> Number | None:
    """Return the natural logarithm; null for zero and below."""
    budget.spend(POWER_STEPS)
    return finite(CONTEXT.ln(number)) if number > 0 else None


@counted("exp", "number: number")
def exp(budget: Budget, number: Number) -> Number | None:
    """Raise Euler's number to a power."""
    budget.spend(POWER_STEPS)
    return finite(CONTEXT.exp(number))


@builtin("odd", "number: number")
def odd(number: Number) -> bool:
    """Return whether a number is odd; a number with a fractional part is neither odd nor even."""
    return modulo(number, 2) == 1


@builtin("even", "number: number")
def even(number: Number) -> bool:
    """Return whether a number is even; a number with a fractional part is neither odd nor even."""
    return modulo(number, 2) == 0
