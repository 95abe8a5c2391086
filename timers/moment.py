"""Read the moments at which timers are due: aware, in UTC, never earlier than what was written."""

import re
from datetime import UTC, datetime, timedelta

from timers.duration import ceiling
from timers.refusal import InvalidTimer, shortened

# asyncpg stores an aware `datetime.max` as 'infinity', which no timer may be due at.
LATEST_DUE_DATE = datetime.max.replace(tzinfo=UTC) - timedelta(microseconds=1)

DUE_DATE_CHARS_MAX = 64
DATE_TIME = re.compile(
    r"(?P<minute>[0-9]{4}-[0-9]{2}-[0-9]{2}T(?:[01][0-9]|2[0-3]):[0-5][0-9])"
    r"(?P<second>:[0-5][0-9](?:[.,](?P<fraction>[0-9]+))?)?"
    r"(?P<offset>Z|[+-](?:[01][0-9]|2[0-3])(?::?[0-5][0-9])?)?"
)


def parse_due_date(text: str) -> datetime:
    """Read an ISO 8601 date-time with an offset, such as 2026-01-31T09:00:00.25+01:00.

    shape:   aware, in UTC, years 1 to 9999
    units:   what is finer than a microsecond is rounded up
    errors:  InvalidTimer  not a date-time, no offset, no such day, or out of those years in UTC
    """
    match = DATE_TIME.fullmatch(text) if len(text) <= DUE_DATE_CHARS_MAX else None
    if match is None:
        raise InvalidTimer(
            f"{shortened(text)} is not an ISO 8601 date-time of the years 0001 to 9999;"
            " write it like 2026-01-31T08:00:00Z"
        )
    minute, second, fraction, offset = match.groups()
    if offset is None:
        raise InvalidTimer(f"{shortened(text)} has no offset from UTC; add one, such as Z or +01:00")
    try:
        moment = datetime.fromisoformat(minute + (second or "")[:3] + offset)
    except ValueError:
        raise InvalidTimer(
            f"{shortened(text)} names a day that is not in the calendar of the years 0001 to 9999; choose another"
        ) from None
    return _in_utc(text, moment, ceiling(fraction or "0", unit_us=1_000_000))


def _in_utc(text: str, moment: datetime, fraction: timedelta) -> datetime:
    try:
        moment = moment.astimezone(UTC) + fraction
        if moment <= LATEST_DUE_DATE:
            return moment
    except OverflowError:
        pass
    raise InvalidTimer(f"{shortened(text)} falls outside the years 0001 to 9999 in UTC; choose a moment within")
