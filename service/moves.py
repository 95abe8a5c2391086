"""Where a pending timer is moved to: a moment, a delay from now, a shift from its own date, or another rule."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TypeAlias, TypeVar
from zoneinfo import ZoneInfo

from shardclock.api.changes import OPERATED
from shardclock_server.sql.clients.verbs import NewRule, Shift, TimerRef, reschedule_timer
from shardclock_server.sql.metrics.status import read_clock
from shardclock_server.sql.session import Session, StoreUnavailable
from shardclock_server.timers.duration import Duration, parse_duration
from shardclock_server.timers.model import NO_OTHER_NAMES
from shardclock_server.timers.moment import parse_due_date
from shardclock_server.timers.refusal import InvalidTimer, shortened
from shardclock_server.timers.schedule import Missed, first_of, parse_schedule
from shardclock_server.timers.zone import zone_of

T = TypeVar("T")
Destination: TypeAlias = datetime | Duration | Shift | NewRule

WHENS = ("delay", "due_date", "shift", "schedule")
FIELDS = (*WHENS, "zone", "missed")
ON_A_CLOCK = ("due_date", "schedule")
MOMENTS = ("delay", "due_date", "shift")  # to which an operator moves a timer of a job or a process


def destination_of(
    given: Mapping[str, str | None],
    *,
    called: Mapping[str, str] = NO_OTHER_NAMES,
    choices: Sequence[str] = WHENS,
) -> Destination:
    """Read where a timer is to be moved, from texts by the names in `FIELDS`; what is missing or None is not given.

    Refusals call a field by its name, or by its name in `called` if the user knows it by another one.

    errors:  InvalidTimer  not exactly one of the `choices`, or a text that can't be read
    """
    names = {field: called.get(field, field) for field in FIELDS}
    text = {field: value for field in FIELDS if (value := given.get(field)) is not None}
    whens = [field for field in choices if field in text]
    if len(whens) != 1:
        *others, last = (names[field] for field in choices)
        raise InvalidTimer(f"say when: give exactly one of {', '.join(others)} and {last}")
    (when,) = whens
    if "missed" in text and when != "schedule":
        raise InvalidTimer(f"{names['missed']} goes with {names['schedule']}; leave it out")
    if "zone" in text and when in ("delay", "shift"):
        raise InvalidTimer(
            f"{names['zone']} goes with {' and '.join(names[it] for it in choices if it in ON_A_CLOCK)};"
            " a length is counted on the timer's own clock"
        )
    zone = _named(names["zone"], zone_of, text["zone"]) if "zone" in text else None
    if when == "delay":
        return _named(names[when], parse_duration, text[when])
    if when == "due_date":
        return _named(names[when], lambda it: parse_due_date(it, zone), text[when])
    if when == "shift":
        return _named(names[when], _shift, text[when])
    missed = text.get("missed")
    if missed is not None and missed not in set(Missed):
        raise InvalidTimer(f"{names['missed']} {shortened(missed)} is unknown: use {', '.join(Missed)}")
    return _named(names[when], lambda it: _rule(it, zone, missed), text[when])


def operated_to(
    verb: str, given: Mapping[str, str | None], *, called: Mapping[str, str] = NO_OTHER_NAMES
) -> datetime | Duration | Shift | None:
    """Read where an operator reschedules a timer of a job or a process to; None: it is paused or resumed.

    errors:  InvalidTimer  no such verb, or a moment that it does not take, or that can't be read
    """
    if verb not in OPERATED:
        raise InvalidTimer(f"verb {shortened(verb)} is unknown: use {', '.join(OPERATED)}")
    if verb == "reschedule":
        to = destination_of(given, called=called, choices=MOMENTS)
        assert not isinstance(to, NewRule), "a rule is no choice"
        return to
    for field in (*MOMENTS, "zone"):
        if given.get(field) is not None:
            name = called.get(field, field)
            raise InvalidTimer(f"{name} {shortened(given[field])} goes with reschedule, not with {verb}; leave it out")
    return None


async def move(session: Session, which: TimerRef, to: Destination) -> str:
    """Move a timer, and say RESCHEDULED, or how it ended.

    errors:  as `reschedule_timer`, and InvalidTimer for a rule that never occurs
    """
    if isinstance(to, NewRule):
        # Refuse a rule that never occurs here; otherwise only the shard that plans it would find out.
        first_of(parse_schedule(to.schedule, to.zone or "UTC"), await read_clock(session))
    try:
        return await reschedule_timer(session, which, to)
    except StoreUnavailable as error:
        if isinstance(to, Shift):
            raise StoreUnavailable(
                f"{error}; look at the timer before you send it again: it may have been moved"
            ) from error
        raise


def _shift(text: str) -> Shift:
    sign, length = ("-", text[1:]) if text.startswith("-") else ("", text.removeprefix("+"))
    return Shift(f"{sign}{parse_duration(length)}")


def _rule(text: str, zone: ZoneInfo | None, missed: str | None) -> NewRule:
    rule = parse_schedule(text, zone.key if zone else "UTC")
    # If no zone is named, the timer keeps its own.
    is_named = zone is not None or "[" in text
    return NewRule(text, rule.zone.key if is_named else None, missed)


def _named(name: str, read: Callable[[str], T], text: str) -> T:
    """Read a text; a refusal begins with the name by which the user knows it."""
    try:
        return read(text)
    except InvalidTimer as refusal:
        raise InvalidTimer(f"{name} {refusal}") from None
