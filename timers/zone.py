"""Find time zones, and convert between local times and moments."""

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

from shardclock_server.timers.refusal import InvalidTimer, shortened

# Files of the zone database that are not zones, or that stand for this machine's zone.
NO_ZONES = {"localtime", "posixrules", "Factory", "leapseconds", "tzdata.zi"}
IN_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
# Texts longer than this are not searched, because all valid texts are shorter.
SEARCHED_CHARS_MAX = 300
AFTER_AT = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.,]{4,30})[^/@]{0,9}@")
UTC_ZONE = ZoneInfo("UTC")


@lru_cache(maxsize=1_024)
def zone_of(name: str) -> ZoneInfo:
    """Find a time zone by its IANA name, in IANA's spelling.

    errors:  InvalidTimer  there is no such zone; `localtime` is refused, because it differs between machines
    """
    if name not in _names():
        raise InvalidTimer(f"{shortened(name)} is not an IANA time zone; write one such as UTC or Europe/Berlin")
    return ZoneInfo(name)


def agreed_zone(text: str, default_zone: ZoneInfo) -> ZoneInfo:
    """Find the zone in brackets in a text, such as `[Europe/Berlin]`; without brackets, return `default_zone`.

    If `default_zone` is UTC, the text may have another zone, because UTC may be only the default.

    errors:  InvalidTimer  the zone does not exist, the text has two zones, or `default_zone` is another zone
    """
    named = sorted(set(IN_BRACKETS.findall(text[:SEARCHED_CHARS_MAX])))
    if not named:
        return default_zone
    zone = zone_of(named[0])
    if len(named) > 1:
        raise InvalidTimer(f"{shortened(text)} names the time zones {zone} and {shortened(named[1])}; write only one")
    if default_zone not in {zone, UTC_ZONE}:
        raise InvalidTimer(
            f"{shortened(text)} names the time zone {zone}, but its zone is {default_zone}; give only one"
        )
    return zone


def check_brackets(text: str) -> None:
    """Refuse a date-time with a zone after an @, the notation of FEEL.

    errors:  InvalidTimer  the text has this notation; the refusal shows brackets instead
    """
    if found := AFTER_AT.search(text[:SEARCHED_CHARS_MAX]):
        raise InvalidTimer(
            f"{shortened(text)} has a zone after an @; write it in brackets, as in {found[1]}[Europe/Berlin]"
        )


def to_utc(local: datetime, zone: ZoneInfo) -> datetime:
    """Return the moment of a local time without an offset.

    A local time that the clock skips moves forward by the length of the clock's jump. If the clock shows the local time
    twice, the first moment is returned.

    errors:  OverflowError  the moment is outside the years 1 to 9999
    """
    return local.replace(tzinfo=zone, fold=0).astimezone(UTC)


def to_local(moment: datetime, zone: ZoneInfo) -> datetime:
    """Return a zone's local time at a moment, without offset; fold=1 if the clock shows this time again.

    errors:  OverflowError  the local time is outside the years 1 to 9999
    """
    return moment.astimezone(zone).replace(tzinfo=None)


def exists(local: datetime, zone: ZoneInfo) -> bool:
    """Return whether a zone's clock ever shows this local time."""
    return to_local(to_utc(local, zone), zone).replace(fold=0) == local.replace(fold=0)


def comes_twice(local: datetime, zone: ZoneInfo) -> bool:
    """Return whether a zone's clock shows this local time twice."""
    first, second = (local.replace(tzinfo=zone, fold=fold).utcoffset() for fold in (0, 1))
    return first != second and exists(local, zone)


def offset_at(moment: datetime, zone: ZoneInfo) -> timedelta:
    """Return how far a zone's clock is ahead of UTC at a moment."""
    offset = moment.astimezone(zone).utcoffset()
    assert offset is not None, "a ZoneInfo always knows"
    return offset


@lru_cache(maxsize=1)
def _names() -> frozenset[str]:
    return frozenset(
        name for name in available_timezones() if name not in NO_ZONES and not name.startswith(("posix/", "right/"))
    )
