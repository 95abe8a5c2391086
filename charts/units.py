"""Values as text, with a unit; units have Grafana's names."""

TIMES = ((86_400, " d"), (3_600, " h"), (60, " min"), (1, " s"), (0.001, " ms"), (0.000_001, " µs"))
THOUSANDS = ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k"), (1, ""))
BINARY = ((2**40, " TiB"), (2**30, " GiB"), (2**20, " MiB"), (2**10, " KiB"), (1, " B"))


def format_value(value: float, unit: str, *, digits: int = 3) -> str:
    """Format a value with its unit.

    units: s, bytes, Bps, cps, percentunit; any other unit gives a plain number
    """
    if unit == "percentunit":
        return f"{_number(value * 100, digits)} %"
    if unit == "s":
        return _scaled(value, TIMES, digits, zero="0 s")
    if is_binary(unit):
        return _scaled(value, BINARY, digits, zero="0 B") + ("/s" if unit == "Bps" else "")
    return _scaled(value, THOUSANDS, digits, zero="0") + ("/s" if unit == "cps" else "")


def is_binary(unit: str) -> bool:
    """Return whether a unit's round values are powers of two."""
    return unit in ("bytes", "Bps")


def _scaled(value: float, sizes: tuple[tuple[float, str], ...], digits: int, *, zero: str) -> str:
    if abs(value) < sizes[-1][0] * 1e-9:
        return zero
    size, name = next((s for s in sizes if abs(value) >= s[0] * 0.9995), sizes[-1])
    return f"{_number(value / size, digits)}{name}"


def _number(value: float, digits: int) -> str:
    return f"{value:.{digits}g}" if abs(value) < 1000 else f"{value:,.0f}"
