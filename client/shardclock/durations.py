"""Parse a duration: an ISO 8601 duration of fixed length, or a timedelta."""

import re
from datetime import timedelta

from shardclock.refusal import shown

DURATION = re.compile(
    r"P(?=[0-9T])(?:(?P<weeks>[0-9]{1,9})W)?(?:(?P<days>[0-9]{1,9})D)?"
    r"(?:T(?=[0-9])(?:(?P<hours>[0-9]{1,9})H)?(?:(?P<minutes>[0-9]{1,9})M)?"
    r"(?:(?P<seconds>[0-9]{1,9})(?:[.,](?P<fraction>[0-9]{1,6}))?S)?)?"
)
ON_THE_CALENDAR = re.compile(r"P(?=[0-9]+[YM])(?:[0-9]+Y)?(?:[0-9]+M)?(?:[0-9]+W)?(?:[0-9]+D)?(?:T[0-9HMS.,]+)?")
# Matches short forms such as 2h30m, which the command line accepts.
SHORT = re.compile(r"(?=.)((?:[0-9]{1,9}d)?)((?:[0-9]{1,9}h)?(?:[0-9]{1,9}m)?(?:[0-9]{1,9}s)?)")
UNIT_S = {"weeks": 604_800, "days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1}


def seconds_of(length: str | timedelta) -> float:
    """Convert a duration, such as P1DT12H or timedelta(seconds=30), to seconds; a day has 24 hours.

    units:   seconds, exact to a microsecond
    errors:  ValueError  the value is negative or not a duration of fixed length; the message begins with the value
    """
    if isinstance(length, timedelta):
        if length < timedelta(0):
            raise ValueError(f"{shown(length)} is negative; give a length of 0 or more")
        return length.total_seconds()
    if not isinstance(length, str):
        raise ValueError(  # noqa: TRY004 - the value is refused like any other
            f"{shown(length)} is neither an ISO 8601 duration nor a timedelta; write one such as PT30S"
        )
    if found := DURATION.fullmatch(length):
        parts = found.groupdict(default="0")
        whole_s = sum(int(parts[unit]) * unit_s for unit, unit_s in UNIT_S.items())
        return (whole_s * 1_000_000 + int(parts["fraction"].ljust(6, "0"))) / 1_000_000
    if ON_THE_CALENDAR.fullmatch(length[:100]):
        raise ValueError(
            f"{shown(length)} has years or months, whose length depends on the date; write weeks, days, hours, minutes"
            " and seconds instead, such as P30D"
        )
    if SHORT.fullmatch(length):
        days, time = SHORT.sub(r"\1,\2", length).upper().split(",")
        raise ValueError(f"{shown(length)} is not an ISO 8601 duration; write P{days}{'T' if time else ''}{time}")
    raise ValueError(f"{shown(length)} is not an ISO 8601 duration; write one such as PT30S, P1DT12H or PT0.5S")
