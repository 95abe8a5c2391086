"""Write numbers and lengths of time for people."""

from datetime import UTC, datetime, timedelta

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


def until_of(length_s: float, now: datetime) -> str:
    """Write an estimated length of time from now, and the minute in which it ends."""
    try:
        end = (now + timedelta(seconds=length_s)).astimezone(UTC)
    except OverflowError:  # the end is after the year 9999
        return f"for about {span_of(length_s)}"
    day = "" if end.date() == now.astimezone(UTC).date() else f"{end:%Y-%m-%d} "
    return f"for about {span_of(length_s)}, until about {day}{end:%H:%M} UTC"
