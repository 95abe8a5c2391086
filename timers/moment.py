"""Read the moments at which timers are due: aware, in UTC, never earlier than what was written."""

import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from timers.duration import ceiling
from timers.refusal import InvalidTimer, shortened
from timers.zone import UTC_ZONE, agreed_zone, comes_twice, to_utc

# asyncpg stores an aware `datetime.max` as 'infinity', which no timer may be due at; the moment before is where paused
# timers are parked.
LATEST_DUE_DATE = datetime.max.replace(tzinfo=UTC) - timedelta(microseconds=2)

DUE_DATE_CHARS_MAX = 128
DATE_TIME = re.compile(
    r"(?P<minute>[0-9]{4}-[0-9]{2}-[0-9]{2}T(?:[01][0-9]|2[0-3]):[0-5][0-9])"
    r"(?P<second>:[0-5][0-9](?:[.,](?P<fraction>[0-9]+))?)?"
    r"(?P<offset>Z|[+-](?:[01][0-9]|2[0-3])(?::?[0-5][0-9])?)?"
    r"(?P<zone>\[[^\[\]]*\])?"
)


def parse_due_date(text: str, zone: ZoneInfo | None = None) -> datetime:
    """Read an ISO 8601 date-time such as 2026-01-31T09:00:00.25+01:00 or 2026-01-31T09:00[Europe/Berlin].

    Without an offset it is a local time of the zone in brackets, or of the zone given beside it: one that the clock
    skips moves forward, of one that comes twice it is the first. An offset says which of the two is meant.

    shape:   aware, in UTC, years 1 to 9999
    units:   what is finer than a microsecond is rounded up
    errors:  InvalidTimer  not a date-time, neither offset nor zone or two that disagree, no such day, or out of
                           those years in UTC
    """
    match = DATE_TIME.fullmatch(text) if len(text) <= DUE_DATE_CHARS_MAX else None
    if match is None:
        raise InvalidTimer(
            f"{shortened(text)} is not an ISO 8601 date-time of the years 0001 to 9999;"
            " write it like 2026-01-31T08:00:00Z"
        )
    minute, second, fraction, offset, in_brackets = match.groups()
    local_zone = agreed_zone(text, zone or UTC_ZONE) if in_brackets else zone
    if offset is None and local_zone is None:
        raise InvalidTimer(
            f"{shortened(text)} has no offset from UTC; add one, such as Z or +01:00, or a zone such as [Europe/Berlin]"
        )
    written = _read(text, minute + (second or "")[:3] + (offset or ""))
    try:
        if in_brackets and offset not in {None, "Z"}:
            _check_offset(text, written, local_zone or UTC_ZONE)
        moment = to_utc(written, local_zone or UTC_ZONE) if offset is None else written.astimezone(UTC)
        moment += ceiling(fraction or "0", unit_us=1_000_000)
        if moment <= LATEST_DUE_DATE:
            return moment
    except OverflowError:
        pass
    raise InvalidTimer(f"{shortened(text)} falls outside the years 0001 to 9999 in UTC; choose a moment within")


def canonical_moment(moment: datetime) -> str:
    """Write a moment in UTC as it is stored, such as 2026-01-31T08:00:00.25Z."""
    text = moment.replace(tzinfo=None).isoformat()
    return f"{text.rstrip('0')}Z" if moment.microsecond else f"{text}Z"


def _read(text: str, date_time: str) -> datetime:
    try:
        return datetime.fromisoformat(date_time)
    except ValueError:
        raise InvalidTimer(
            f"{shortened(text)} names a day that is not in the calendar of the years 0001 to 9999; choose another"
        ) from None


def _check_offset(text: str, written: datetime, zone: ZoneInfo) -> None:
    local = written.replace(tzinfo=None)
    first = local.replace(tzinfo=zone)
    offsets = [first.utcoffset()]
    if comes_twice(local, zone):
        offsets.append(first.replace(fold=1).utcoffset())
    if written.utcoffset() not in offsets:
        right = first.isoformat()[len("2026-01-31T08:00:00") :]
        raise InvalidTimer(f"{shortened(text)} has another offset than {zone} at that time; write {right}, or none")
