"""Read a length of time, written as 15m or 2h30m, or in ISO 8601 as PT15M."""

import re

from shardclock_server.timers.duration import Duration, parse_duration
from shardclock_server.timers.refusal import InvalidTimer, shortened

# Weeks and days are calendar time, as in ISO 8601: 1d may last 23 or 25 hours, but 24h is always 24 hours.
SHORT = re.compile(r"(?=.)((?:[0-9]+w)?(?:[0-9]+d)?)((?:[0-9.,]+h)?(?:[0-9.,]+m)?(?:[0-9.,]+s)?)", re.IGNORECASE)


def read_length(option: str, text: str, *, sign: str = "") -> Duration:
    """Read an option's length of time, such as 15m, 2h30m, 90s or 3d, or an ISO 8601 duration.

    `sign` is the sign before the text, for the messages of refusals.

    errors:  InvalidTimer  the text is not a length of time, or has a capital M, which may mean minutes or months
    """
    shown = f"{option} {shortened(sign + text)}"
    short = SHORT.fullmatch(text)
    if short and "M" in text:
        raise InvalidTimer(f"{shown} may mean minutes or months; write 15m for minutes, and P1M (ISO 8601) for months")
    try:
        return parse_duration(_iso(*short.groups()) if short else text)
    except InvalidTimer:
        raise InvalidTimer(
            f"{shown} is not a length of time from zero to 10,000 years; write a length such as 15m, 2h30m, 90s or 3d,"
            " or an ISO 8601 duration such as PT15M"
        ) from None


def is_length(text: str) -> bool:
    """Return whether a text has the form of a length of time: 15m, 2h30m, or PT15M."""
    return SHORT.fullmatch(text) is not None or text.upper().startswith("P")


def _iso(date: str, time: str) -> str:
    return f"P{date}{'T' if time else ''}{time}".upper()
