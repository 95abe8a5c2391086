"""Read and write dates, times, date-times and durations in XML Schema's notation, with `@Europe/Paris` for a zone."""

import re
from typing import TypeVar

from shardclock_server.feel.calendar import YEAR_MAX, exists
from shardclock_server.feel.temporal import DAY_NS, SECOND_NS, Date, DateTime, Elapsed, Months, Time, Zone, at_local
from shardclock_server.timers.refusal import InvalidTimer
from shardclock_server.timers.zone import zone_of

CHARS_MAX = 120
OFFSET_S_MAX = 18 * 3_600
MONTHS_MAX = 12 * YEAR_MAX
ELAPSED_NS_MAX = 2 * YEAR_MAX * 366 * DAY_NS
FRACTION_DIGITS = 9  # Further digits, below a nanosecond, are dropped.

DATE = re.compile(r"(-?(?:[0-9]{4}|[1-9][0-9]{4,8}))-([0-9]{2})-([0-9]{2})")
OFFSET = re.compile(r"Z|[+-][0-9]{2}:[0-9]{2}(?::[0-9]{2})?")
TIME = re.compile(
    r"(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:\.(?P<fraction>[0-9]+))?)?"
    rf"(?P<offset>{OFFSET.pattern})?(?:@(?P<zone>[A-Za-z0-9_+/-]+))?"
)
MONTHS = re.compile(r"(?P<sign>-?)P(?=[0-9])(?:(?P<years>[0-9]{1,10})Y)?(?:(?P<months>[0-9]{1,11})M)?")
ELAPSED = re.compile(
    r"(?P<sign>-?)P(?=[0-9T])(?:(?P<days>[0-9]{1,13})D)?"
    r"(?:T(?=[0-9])(?:(?P<hours>[0-9]{1,15})H)?(?:(?P<minutes>[0-9]{1,17})M)?"
    r"(?:(?P<seconds>[0-9]{1,19})(?:\.(?P<fraction>[0-9]+))?S)?)?"
)

Temporal = Date | Time | DateTime | Months | Elapsed
Value = TypeVar("Value", Date, Time, DateTime, Months, Elapsed)


def parse_temporal(text: str) -> Temporal | None:
    """Read the literal after an @: a date, time, date-time or duration; None for any other text."""
    return parse_date(text) or parse_date_time(text) or parse_time(text) or parse_duration(text)


def parse_date(text: str) -> Date | None:
    """Read a date such as 2026-01-31; None for any other text, and for a day that does not exist."""
    match = DATE.fullmatch(text) if len(text) <= CHARS_MAX else None
    if match is None:
        return None
    year, month, day = map(int, match.groups())
    return Date(year, month, day) if exists(year, month, day) else None


def parse_time(text: str) -> Time | None:
    """Read a time such as 08:30:00, 08:30:00.5Z, 08:30:00+01:00 or 08:30:00@Europe/Paris; 24:00:00 is midnight."""
    read = _clock(text)
    return Time(read[0] % DAY_NS, read[1]) if read else None


def parse_date_time(text: str) -> DateTime | None:
    """Read a date, a T and a time.

    24:00:00 is the next day's midnight. A date without a time is converted to its midnight.

    A zone may also be in brackets, as in 2031-01-31T08:30:00+01:00[Europe/Paris]; the zone must have this offset at
    that time. If the zone's clock skips the local time, the result is later by the length of the gap. If the local time
    occurs twice, the offset selects the moment; without an offset, the first moment is used.
    """
    if text.endswith("]") and len(text) <= CHARS_MAX:
        moment_text, _, zone_name = text[:-1].partition("[")
        return _on_clock(moment_text, zone_name)
    date_text, separator, time_text = text.partition("T")
    date = parse_date(date_text)
    read = _clock(time_text) if separator else (0, None)
    if date is None or read is None:
        return None
    ns, zone = read
    return checked(at_local(date.number * DAY_NS + ns, zone))


def parse_duration(text: str) -> Months | Elapsed | None:
    """Read a duration of years and months, or of days and time.

    The result is None for a mixture of the two kinds of durations and for any other text.
    """
    if len(text) > CHARS_MAX:
        return None
    if match := MONTHS.fullmatch(text):
        months = int(match["years"] or 0) * 12 + int(match["months"] or 0)
        return checked(Months(-months if match["sign"] else months))
    if match := ELAPSED.fullmatch(text):
        days, hours, minutes, seconds = (int(match[unit] or 0) for unit in ("days", "hours", "minutes", "seconds"))
        ns = (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * SECOND_NS + _fraction_ns(match["fraction"])
        return checked(Elapsed(-ns if match["sign"] else ns))
    return None


def parse_zone(text: str) -> Zone:
    """Read a zone's name, or an offset such as Z or +01:00; None for any other text."""
    if OFFSET.fullmatch(text):
        return _offset_s(text)
    return text if is_zone(text) else None


def checked(value: Value) -> Value | None:
    """Return a value unchanged if its year is in the supported range, else None."""
    match value:
        case Months(months):
            return value if abs(months) <= MONTHS_MAX else None
        case Elapsed(ns):
            return value if abs(ns) <= ELAPSED_NS_MAX else None
        case Date():
            return value if abs(value.year) <= YEAR_MAX else None
        case DateTime():
            return value if abs(value.date.year) <= YEAR_MAX else None
    return value


def is_zone(name: str) -> bool:
    """Return whether IANA has a zone of that name."""
    try:
        zone_of(name)
    except InvalidTimer:
        return False
    return True


def temporal_text(value: Temporal) -> str:
    """Write a value in the canonical notation; reading this notation gives the same value.

    If a zone's clock shows a time twice, the second moment is written with its offset, and with the zone in brackets.
    Without the offset the text would mean the first moment.
    """
    match value:
        case Date(year, month, day):
            return f"{'-' if year < 0 else ''}{abs(year):04}-{month:02}-{day:02}"
        case Time(ns, zone):
            return _clock_text(ns) + _zone_text(zone)
        case DateTime(date, ns, zone, is_second):
            shown = f"{_zone_text(value.offset_s)}[{zone}]" if is_second else _zone_text(zone)
            return f"{temporal_text(date)}T{_clock_text(ns)}{shown}"
        case Months(months):
            return _months_text(months)
        case Elapsed(ns):
            return _elapsed_text(ns)


def _clock(text: str) -> tuple[int, Zone] | None:
    match = TIME.fullmatch(text) if len(text) <= CHARS_MAX else None
    if match is None or (match["offset"] and match["zone"]):
        return None
    hour, minute, second = int(match["hour"]), int(match["minute"]), int(match["second"] or 0)
    ns = ((hour * 60 + minute) * 60 + second) * SECOND_NS + _fraction_ns(match["fraction"])
    if minute > 59 or second > 59 or ns > DAY_NS:
        return None
    if match["zone"]:
        return (ns, match["zone"]) if is_zone(match["zone"]) else None
    if match["offset"] is None:
        return ns, None
    offset_s = _offset_s(match["offset"])
    return None if offset_s is None else (ns, offset_s)


def _on_clock(text: str, zone: str) -> DateTime | None:
    """Read a date-time on a zone's clock; if the clock shows the time twice, the offset selects the moment."""
    moment = parse_date_time(text) if "T" in text and "]" not in text else None
    if moment is None or isinstance(moment.zone, str) or not is_zone(zone):
        return None
    named = at_local(moment.local_ns, zone, preferred_s=moment.zone)
    return named if moment.zone is None or named.utc_ns == moment.utc_ns else None


def _offset_s(text: str) -> int | None:
    if text == "Z":
        return 0
    hours, minutes, seconds = (*map(int, text[1:].split(":")), 0)[:3]
    offset_s = hours * 3_600 + minutes * 60 + seconds
    if minutes > 59 or seconds > 59 or offset_s > OFFSET_S_MAX:
        return None
    return -offset_s if text[0] == "-" else offset_s


def _fraction_ns(digits: str | None) -> int:
    return int((digits or "")[:FRACTION_DIGITS].ljust(FRACTION_DIGITS, "0"))


def _fraction_text(ns: int) -> str:
    return f".{ns:09}".rstrip("0") if ns else ""


def _clock_text(ns: int) -> str:
    seconds, rest_ns = divmod(ns, SECOND_NS)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{hour:02}:{minute:02}:{second:02}{_fraction_text(rest_ns)}"


def _zone_text(zone: Zone) -> str:
    if zone is None:
        return ""
    if isinstance(zone, str):
        return f"@{zone}"
    if zone == 0:
        return "Z"
    minutes, second = divmod(abs(zone), 60)
    hour, minute = divmod(minutes, 60)
    return f"{'-' if zone < 0 else '+'}{hour:02}:{minute:02}" + (f":{second:02}" if second else "")


def _months_text(months: int) -> str:
    years, rest = divmod(abs(months), 12)
    parts = (f"{years}Y" if years else "") + (f"{rest}M" if rest or not years else "")
    return f"{'-' if months < 0 else ''}P{parts}"


def _elapsed_text(ns: int) -> str:
    seconds, rest_ns = divmod(abs(ns), SECOND_NS)
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    time = (f"{hour}H" if hour else "") + (f"{minute}M" if minute else "")
    if second or rest_ns:
        time += f"{second}{_fraction_text(rest_ns)}S"
    if not days and not time:
        return "PT0S"
    return f"{'-' if ns < 0 else ''}P" + (f"{days}D" if days else "") + (f"T{time}" if time else "")
