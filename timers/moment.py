"""Parse due dates. The result is aware, in UTC, and never before the moment in the text."""

import re
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from shardclock_server.timers.duration import ceiling
from shardclock_server.timers.refusal import InvalidTimer, shortened
from shardclock_server.timers.zone import UTC_ZONE, agreed_zone, check_brackets, comes_twice, exists, to_utc

# asyncpg stores an aware `datetime.min` as '-infinity' and `datetime.max` as 'infinity', which are not due dates.
# Paused timers have the microsecond before `datetime.max` as their due date.
EARLIEST_DUE_DATE = datetime.min.replace(tzinfo=UTC) + timedelta(microseconds=1)
LATEST_DUE_DATE = datetime.max.replace(tzinfo=UTC) - timedelta(microseconds=2)

DUE_DATE_CHARS_MAX = 128
DATE_TIME = re.compile(
    r"(?P<minute>[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt](?:[01][0-9]|2[0-3]):[0-5][0-9])"
    r"(?P<second>:[0-5][0-9](?:[.,](?P<fraction>[0-9]+))?)?"
    r"(?P<offset>[Zz]|[+-](?:[01][0-9]|2[0-3])(?::?[0-5][0-9])?)?"
    r"(?P<zone>\[[^\[\]]*\])?"
)


class NotDateTime(InvalidTimer):
    """Refuse a text that does not have the form of a date-time."""


class ParsedMoment(NamedTuple):
    """A parsed moment.

    If the zone's clock skips the local time of the text, `skipped` is this local time, otherwise None.
    """

    moment: datetime
    skipped: datetime | None


def parse_due_date(text: str, zone: ZoneInfo | None = None) -> datetime:
    """Parse an ISO 8601 date-time such as 2026-01-31T09:00:00.25+01:00 or 2026-01-31T09:00[Europe/Berlin].

    A text without an offset is a local time of the zone in brackets; without brackets, of `zone`. A local time that the
    clock skips moves forward. If the clock shows a local time twice, an offset selects the moment; without an offset,
    the first moment is used.

    shape:   aware, in UTC, years 1 to 9999
    units:   fractions of a microsecond are rounded up
    errors:  NotDateTime   the text does not have the form of a date-time
             InvalidTimer  it has neither an offset nor a zone; its offset is not the
                           zone's offset; the day does not exist; or the moment is outside the years 1 to 9999 in UTC
    """
    return parse_written(text, zone).moment


def parse_written(text: str, zone: ZoneInfo | None = None) -> ParsedMoment:
    """Parse a date-time like `parse_due_date`; if the zone's clock skips the local time of the text, return it too."""
    match = DATE_TIME.fullmatch(text) if len(text) <= DUE_DATE_CHARS_MAX else None
    if match is None:
        check_brackets(text)
        raise NotDateTime(
            f"{shortened(text)} is not an ISO 8601 date-time of the years 0001 to 9999;"
            " write it like 2026-01-31T08:00:00Z"
        )
    minute, second, fraction, offset, in_brackets = match.groups()
    offset = offset and offset.upper()
    local_zone = agreed_zone(text, zone or UTC_ZONE) if in_brackets else zone
    if offset is None and local_zone is None:
        raise InvalidTimer(
            f"{shortened(text)} has no offset from UTC; add one, such as Z or +01:00, or a zone such as [Europe/Berlin]"
        )
    clock = local_zone or UTC_ZONE
    written = _read(text, minute.upper() + (second or "")[:3] + (offset or ""))
    is_local = offset is None or (in_brackets is not None and offset != "Z")
    try:
        if is_local and offset is not None:
            _check_offset(text, written, clock)
        moment = to_utc(written, clock) if offset is None else written.astimezone(UTC)
        finer = ceiling(fraction or "0", unit_us=1_000_000)
        if EARLIEST_DUE_DATE <= moment + finer <= LATEST_DUE_DATE:
            local = written.replace(tzinfo=None) + finer
            return ParsedMoment(moment + finer, local if is_local and not exists(local, clock) else None)
    except OverflowError:
        pass
    raise InvalidTimer(f"{shortened(text)} falls outside the years 0001 to 9999 in UTC; choose a moment within")


def canonical_moment(moment: datetime) -> str:
    """Format a moment in UTC in canonical form, such as 2026-01-31T08:00:00.25Z."""
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
