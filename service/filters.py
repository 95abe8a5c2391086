"""Read a filter of timers from texts."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from shardclock.api.codes import invalid
from shardclock_server.sql.clients.search import TimerFilter
from shardclock_server.timers.model import NO_OTHER_NAMES
from shardclock_server.timers.moment import parse_due_date
from shardclock_server.timers.refusal import InvalidTimer

WINDOWS = (("due_from", "due_before", "due"), ("changed_from", "changed_before", "changed"))


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenFilter:
    """A client's unparsed filter: moments are texts; a field that is None excludes no timer."""

    tenant_id: str | None = None
    name_prefix: str | None = None
    name_contains: str | None = None
    due_from: str | None = None
    due_before: str | None = None
    changed_from: str | None = None
    changed_before: str | None = None
    process_instance_key: int | None = None
    target: str | None = None
    only_schedules: bool = False


def filter_of(
    given: GivenFilter, *, clock: ZoneInfo | None = None, called: Mapping[str, str] = NO_OTHER_NAMES
) -> TimerFilter:
    """Read a filter; a time without an offset is a local time in the zone `clock`.

    A refusal uses a field's name in `called`, or the field's own name if `called` has no entry.

    errors:  InvalidTimer  a text is not a moment, or a window ends before it begins
    """
    values = asdict(given)
    for first, last, what in WINDOWS:
        names = [called.get(field, field) for field in (first, last)]
        texts = [values[first], values[last]]
        start, end = (
            None if text is None else moment_of(name, text, clock) for name, text in zip(names, texts, strict=True)
        )
        if start and end and start >= end:
            raise InvalidTimer(
                f"nothing is {what} between {names[0]} {texts[0]} and {names[1]} {texts[1]}; swap them",
                code=invalid(first),
            )
        values |= {first: start, last: end}
    return TimerFilter(**values)


def moment_of(name: str, text: str, clock: ZoneInfo | None = None) -> datetime:
    """Read a moment; a refusal begins with `name`, the caller's name for the field.

    errors:  InvalidTimer  the text is not a moment
    """
    try:
        return parse_due_date(text, clock)
    except InvalidTimer as refusal:
        raise InvalidTimer(f"{name} {refusal}", code=refusal.code) from None
