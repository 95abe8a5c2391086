"""Numbers in sentences for people."""


def counted(number: int, noun: str, many: str | None = None) -> str:
    """Write a number with its noun: 1 timer, 2 timers, 1,234 timers; `many` is a plural that takes more than an s."""
    return f"{number:,} {noun if number == 1 else many or f'{noun}s'}"
