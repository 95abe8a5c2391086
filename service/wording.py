"""Write numbers and lengths of time for people."""

UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


def counted(number: int, noun: str, many: str | None = None) -> str:
    """Write a number with its noun: 1 timer, 2 timers, 1,234 timers; `many` is an irregular plural."""
    return f"{number:,} {noun if number == 1 else many or f'{noun}s'}"


def span_of(length_s: float) -> str:
    """Write a length of time in its two largest units."""
    rest = max(1, round(length_s))
    parts = []
    for unit, unit_s in UNITS:
        number, rest = divmod(rest, unit_s)
        if number:
            parts.append(f"{number:,} {unit}")
    return " ".join(parts[:2])
