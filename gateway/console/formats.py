"""Write moments, lengths of time and numbers for the console's templates, and read moments that pages show."""

import re
from datetime import UTC, datetime

from shardclock_server.service.wording import span_of

JUST_NOW_S = 1.0
SHOWN = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2}) ([0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?)( ?UTC|Z)?")


def iso(at: datetime) -> str:
    """Write a moment with full precision."""
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def shown(at: datetime) -> str:
    """Write a moment to the second, in UTC."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def iso_of_shown(text: str, *, zone: str | None = None) -> str:
    """Convert a moment that a page shows to ISO 8601; another text stays unchanged.

    A moment without `UTC` or `Z` is a local time of the form's zone; without a zone, it is in UTC.
    """
    match = SHOWN.fullmatch(text.strip())
    if match is None:
        return text
    day, time, offset = match.groups()
    is_local = offset is None and zone not in (None, "", "UTC")
    return f"{day}T{time}{'' if is_local else 'Z'}"


def relative(at: datetime, now: datetime) -> str:
    """Write the time from now to a moment: `in 3 min`, `2 h 5 min ago`."""
    ahead_s = (at - now).total_seconds()
    if abs(ahead_s) < JUST_NOW_S:
        return "now"
    span = span_of(abs(ahead_s))
    return f"in {span}" if ahead_s > 0 else f"{span} ago"


def elapsed(began_at: datetime, now: datetime) -> str:
    """Write the time from a past moment to now: `17 min`."""
    return duration(max(0.0, (now - began_at).total_seconds()))


def duration(seconds: float | None) -> str:
    """Write a length of time: milliseconds below a second, then the two largest units."""
    if seconds is None:
        return "–"
    if abs(seconds) < 1:
        return f"{seconds * 1_000:.1f} ms"
    if abs(seconds) < 60:
        return f"{seconds:.1f} s"
    return span_of(seconds)


def count(number: int | None) -> str:
    """Write a number with separators; for an unknown number, write a dash."""
    return "–" if number is None else f"{number:,}"
