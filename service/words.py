"""Numbers in sentences for people."""


def counted(number: int, noun: str) -> str:
    """Write a number with its noun: 1 timer, 2 timers, 1,234 timers."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
