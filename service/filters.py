"""Read which timers are meant, from texts."""

from collections.abc import Mapping
from datetime import datetime
from zoneinfo import ZoneInfo

from shardclock_server.sql.clients.history import Filter
from shardclock_server.timers.model import NO_OTHER_NAMES
from shardclock_server.timers.moment import parse_due_date
from shardclock_server.timers.refusal import InvalidTimer


def filter_of(
    tenant_id: str | None,
    name_prefix: str | None,
    due_from: str | None,
    due_before: str | None,
    process_instance_key: int | None,
    *,
    target: str | None = None,
    clock: ZoneInfo | None = None,
    called: Mapping[str, str] = NO_OTHER_NAMES,
) -> Filter:
    """Read a filter; a time without an offset is read on `clock`.

    Refusals call a field by its name, or by its name in `called` if the user knows it by another one.

    errors:  InvalidTimer  not a moment, or a window that ends before it begins
    """
    names = {field: called.get(field, field) for field in ("due_from", "due_before")}
    start = None if due_from is None else moment_of(names["due_from"], due_from, clock)
    end = None if due_before is None else moment_of(names["due_before"], due_before, clock)
    if start and end and start >= end:
        raise InvalidTimer(
            f"nothing is due between {names['due_from']} {due_from} and {names['due_before']} {due_before}; swap them"
        )
    return Filter(tenant_id, name_prefix, start, end, process_instance_key, target)


def moment_of(name: str, text: str, clock: ZoneInfo | None = None) -> datetime:
    """Read a moment; a refusal begins with the name by which the user knows it.

    errors:  InvalidTimer  it is none
    """
    try:
        return parse_due_date(text, clock)
    except InvalidTimer as refusal:
        raise InvalidTimer(f"{name} {refusal}") from None
